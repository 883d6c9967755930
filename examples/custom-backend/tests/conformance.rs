//! The suite that every backend can run.

use custom_backend::Tinker;
use watchfire_core::backend::{Backend as _, Backends, conformance};
use watchfire_core::conformance::check;

#[test]
fn conforms() {
    check(conformance::CASES, || Box::new(Tinker)).unwrap();
}

#[test]
fn is_found_by_linking() {
    assert_eq!(Backends::linked().unwrap().get("tinker").unwrap().name(), Tinker.name());
}
