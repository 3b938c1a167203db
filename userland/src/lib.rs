//! What the user programs share.
