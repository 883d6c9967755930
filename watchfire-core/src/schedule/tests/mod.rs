//! Tests of the machine: examples, and a model that drives it with random facts.

mod checks;
mod effects;
mod examples;
mod model;
mod world;
