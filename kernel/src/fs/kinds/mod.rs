//! Kinds of files: regular files in memory, pipes, sockets, and pseudo files.

pub mod anonymous;
pub mod devtmpfs;
pub mod epoll;
pub mod eventfd;
pub mod fifo;
pub mod hugefile;
pub mod piece;
pub mod pipe;
pub mod pseudo;
pub mod pseudo_tree;
pub mod ramfile;
pub mod ramfs;
pub mod records;
pub mod socket;
pub mod text;
pub mod timerfd;
