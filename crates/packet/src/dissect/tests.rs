//! What the walk finds in frames that are right, cut and wrong.

mod build;
mod encapsulation;
mod fault;
mod property;
