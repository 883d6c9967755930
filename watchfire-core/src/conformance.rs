//! The shape that the conformance suites of all seams share. Feature `testing`.
//!
//! Each seam has a module `conformance` with `CASES`, about what is tested or what makes it. [`Suites`] shows each case as a test
//! of its own, in a test program without a harness (`harness = false` in `Cargo.toml`):
//!
//! ```ignore
//! fn main() {
//!     Suites::new().with("your_agent", conformance::CASES, || Box::new(YourAgent)).run();
//! }
//! ```
//!
//! [`check`] runs all of them in one test of the usual harness.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use libtest_mimic::{Arguments, Completion, Trial};

use crate::{Error, ErrorKind, Result};

/// Reason why a case did not pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NotPassed {
    /// The case would prove nothing on this machine.
    Skipped(String),
    /// A guarantee does not hold, or the case panicked, as a failed `assert!` does.
    Failed(String),
}

impl fmt::Display for NotPassed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped(why) => write!(f, "SKIPPED: {why}"),
            Self::Failed(what) => f.write_str(what),
        }
    }
}

/// Outcome of a case.
pub type Outcome = Result<(), NotPassed>;

type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// One case of a suite, about an `S`.
pub struct Case<S: ?Sized> {
    name: &'static str,
    run: for<'a> fn(&'a S) -> Running<'a>,
}

impl<S: ?Sized> fmt::Debug for Case<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

impl<S: ?Sized> Case<S> {
    pub(crate) const fn new(name: &'static str, run: for<'a> fn(&'a S) -> Running<'a>) -> Self {
        Self { name, run }
    }

    /// Returns the name, which says what must hold.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the case on a Tokio runtime with timers and I/O.
    ///
    /// # Errors
    /// See [`NotPassed`].
    pub async fn run(&self, subject: &S) -> Outcome {
        let mut running = (self.run)(subject);
        let polled =
            poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
                Ok(polled) => polled.map(Ok),
                Err(panic) => std::task::Poll::Ready(Err(panic)),
            });
        polled.await.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(NotPassed::Failed(text.unwrap_or("it panics").to_owned()))
        })
    }

    /// Runs the case on a runtime of its own, for tests that are plain functions.
    ///
    /// # Errors
    /// See [`NotPassed`].
    pub fn run_alone(&self, subject: &S) -> Outcome {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| NotPassed::Skipped(format!("no runtime: {error}")))?;
        runtime.block_on(self.run(subject))
    }
}

/// Runs every case alone, each on what `make` makes for it. Skipped ones are named on stderr.
///
/// # Errors
/// `internal`, with each case that failed.
pub fn check<S: ?Sized>(cases: &[Case<S>], mut make: impl FnMut() -> Box<S>) -> Result<()> {
    let mut failures = Vec::new();
    for case in cases {
        match case.run_alone(&*make()) {
            Ok(()) => {}
            Err(NotPassed::Skipped(why)) => eprintln!("SKIPPED {}: {why}", case.name),
            Err(NotPassed::Failed(what)) => failures.push(format!("\n- {}: {what}", case.name)),
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Internal, format!("it does not conform:{}", failures.concat()))),
    }
}

/// Suites whose cases are tests of their own: filtered, listed and reported by name, as tests of the usual harness are.
#[derive(Debug, Default)]
pub struct Suites(Vec<Trial>);

impl Suites {
    /// Begins without any.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a suite. Its tests are called `name::case`, and each runs on what `make` makes for it.
    #[must_use]
    pub fn with<S: ?Sized + 'static>(
        mut self,
        name: &str,
        cases: &'static [Case<S>],
        make: impl Fn() -> Box<S> + Clone + Send + 'static,
    ) -> Self {
        self.0.extend(cases.iter().map(|case| {
            let make = make.clone();
            Trial::ignorable_test(format!("{name}::{}", case.name), move || match case.run_alone(&*make()) {
                Ok(()) => Ok(Completion::Completed),
                Err(NotPassed::Skipped(why)) => Ok(Completion::ignored_with(why)),
                Err(NotPassed::Failed(what)) => Err(what.into()),
            })
        }));
        self
    }

    /// Runs the tests that the command line asks for, and ends the program.
    pub fn run(self) -> ! {
        libtest_mimic::run(&Arguments::from_args(), self.0).exit()
    }
}

/// A return value of a case.
pub(crate) trait Judged {
    fn judged(self) -> Outcome;
}

impl Judged for () {
    fn judged(self) -> Outcome {
        Ok(())
    }
}

impl Judged for Outcome {
    fn judged(self) -> Outcome {
        self
    }
}

impl Judged for Result<()> {
    fn judged(self) -> Outcome {
        self.map_err(|error| NotPassed::Failed(error.report()))
    }
}

/// Makes `CASES` of functions, each named for its guarantee.
macro_rules! cases {
    (async $vis:vis $subject:ty: $($name:ident,)*) => {
        /// Every guarantee.
        $vis const CASES: &[$crate::conformance::Case<$subject>] = &[$($crate::conformance::Case::new(
            stringify!($name),
            |subject| Box::pin(async move { $crate::conformance::Judged::judged($name(subject).await) }),
        ),)*];
    };
    ($vis:vis $subject:ty: $($name:ident,)*) => {
        /// Every guarantee.
        $vis const CASES: &[$crate::conformance::Case<$subject>] = &[$($crate::conformance::Case::new(
            stringify!($name),
            |subject| Box::pin(async move { $crate::conformance::Judged::judged($name(subject)) }),
        ),)*];
    };
}

pub(crate) use cases;

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(_: &str) {}

    fn breaks(subject: &str) {
        assert_eq!(subject, "other", "not the same");
    }

    fn cannot(_: &str) -> Outcome {
        Err(NotPassed::Skipped("not here".to_owned()))
    }

    fn fails(_: &str) -> Result<()> {
        Err(Error::new(ErrorKind::Io, "no way"))
    }

    cases!(pub(super) str: holds, breaks, cannot, fails,);

    #[test]
    fn every_failure_is_told() {
        let told = check(CASES, || "it".into()).unwrap_err().to_string();
        assert!(told.starts_with("it does not conform:\n- breaks: "), "{told}");
        assert!(told.contains("not the same") && told.ends_with("\n- fails: no way"), "{told}");
        assert!(check(&CASES[..1], || "it".into()).is_ok());
    }
}
