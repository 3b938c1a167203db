//! A simulated machine for the host.
