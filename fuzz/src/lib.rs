//! What the targets share.
