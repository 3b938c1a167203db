//! What teaches: labs and their grades, pictures of memory, a page to play with, the book.
pub mod book;
pub mod lab;
pub mod picture;
pub mod play;
