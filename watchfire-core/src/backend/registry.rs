//! Which backends there are.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Backend;
use crate::model::{AgentSettings, BackendName, Settings};
use crate::{Error, ErrorKind, Result};

/// A backend that a linked crate offers.
///
/// ```
/// # use watchfire_core::backend::{Backend, Launch, Located, ProgramSearch, Registration, SessionContext};
/// # #[derive(Debug)] struct Mine;
/// # impl Backend for Mine {
/// #     fn name(&self) -> &str { "mine" }
/// #     fn locate(&self, s: &ProgramSearch) -> watchfire_core::Result<Located> { s.find("mine", &[]).map(Located::new) }
/// #     fn prepare(&self, c: &SessionContext) -> watchfire_core::Result<Launch> { Ok(Launch::new(&c.program)) }
/// # }
/// watchfire_core::register_backend!(Mine);
/// # assert!(watchfire_core::backend::Backends::linked().unwrap().get("mine").is_ok());
/// ```
///
/// A crate that is only linked for its registrations needs a `use my_backend as _;`, or the linker drops it.
pub struct Registration {
    /// Makes the backend.
    pub make: fn() -> Arc<dyn Backend>,
    /// The crate that registered it, for error messages.
    pub origin: &'static str,
}

inventory::collect!(Registration);

/// A kind of backend that a linked crate makes from an entry of the settings, for names that no backend has.
pub struct Family {
    /// Makes the backend of that name; an error names the field that is wrong.
    pub make: fn(BackendName, &AgentSettings) -> Result<Arc<dyn Backend>>,
    /// The crate that registered it, for error messages.
    pub origin: &'static str,
}

inventory::collect!(Family);

/// Offers to make backends from entries of the settings. Takes a `fn(BackendName, &AgentSettings) -> Result<Arc<dyn
/// Backend>>`; see [`Backends::with_configured`](crate::backend::Backends::with_configured).
#[macro_export]
macro_rules! register_backend_family {
    ($make:expr) => {
        $crate::backend::__inventory::submit! {
            $crate::backend::Family { make: $make, origin: ::std::env!("CARGO_PKG_NAME") }
        }
    };
}

/// Offers a backend to every orchestrator of programs that link this crate. Takes an expression.
#[macro_export]
macro_rules! register_backend {
    ($backend:expr) => {
        $crate::backend::__inventory::submit! {
            $crate::backend::Registration {
                make: || ::std::sync::Arc::new($backend),
                origin: ::std::env!("CARGO_PKG_NAME"),
            }
        }
    };
}

/// A set of backends with unique names.
#[derive(Clone, Default)]
pub struct Backends {
    by_name: BTreeMap<BackendName, (Arc<dyn Backend>, &'static str)>,
}

impl Backends {
    /// No backends.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All backends of the linked crates.
    ///
    /// # Errors
    /// `already_exists` when two linked backends have one name, with both crates; `invalid_input` for a bad name.
    pub fn linked() -> Result<Self> {
        let mut backends = Self::new();
        for registration in inventory::iter::<Registration> {
            let backend = (registration.make)();
            let name: BackendName = backend.name().parse()?;
            if let Some((_, other)) = backends.by_name.get(&name) {
                return Err(Error::new(ErrorKind::AlreadyExists, "two linked backends have one name")
                    .with("name", name)
                    .with("crates", format_args!("{other}, {}", registration.origin)));
            }
            backends.by_name.insert(name, (backend, registration.origin));
        }
        Ok(backends)
    }

    /// Adds a backend for each entry of `agents` in the settings that has a `path` and a name that no backend has,
    /// made by the linked [`Family`].
    ///
    /// # Errors
    /// `invalid_input` for a bad name or bad options; `already_exists` when two linked crates offer to make it.
    pub fn with_configured(mut self, settings: &Settings) -> Result<Self> {
        let mut families = inventory::iter::<Family>.into_iter();
        let Some(family) = families.next() else { return Ok(self) };
        if let Some(other) = families.next() {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                "two linked crates make backends from settings",
            )
            .with("crates", format_args!("{}, {}", family.origin, other.origin)));
        }
        for (name, entry) in &settings.agents {
            if entry.path.is_some() && self.get(name).is_err() {
                let name: BackendName = name.parse()?;
                let backend = (family.make)(name.clone(), entry)?;
                self.by_name.insert(name, (backend, "settings"));
            }
        }
        Ok(self)
    }

    /// Puts a backend in. One of the same name is replaced and returned.
    ///
    /// # Errors
    /// `invalid_input` for a bad name.
    pub fn insert(&mut self, backend: Arc<dyn Backend>) -> Result<Option<Arc<dyn Backend>>> {
        let name = backend.name().parse()?;
        Ok(self.by_name.insert(name, (backend, "builder")).map(|(old, _)| old))
    }

    /// The backend of that name, or else the one with that alias.
    ///
    /// # Errors
    /// `unknown_backend`, with the names that there are. Never another backend in its place.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Backend>> {
        let named =
            self.by_name.iter().find(|(known, _)| known.as_str() == name).map(|(_, (backend, _))| backend);
        let found = named.or_else(|| self.iter().find(|backend| backend.aliases().contains(&name)));
        found.map(Arc::clone).ok_or_else(|| {
            let known: Vec<_> = self.by_name.keys().map(BackendName::as_str).collect();
            Error::new(ErrorKind::UnknownBackend, "unknown backend")
                .with("name", name)
                .with("known", if known.is_empty() { "none".to_owned() } else { known.join(", ") })
        })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        self.by_name.values().map(|(backend, _)| backend)
    }
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("origin", &self.origin).finish_non_exhaustive()
    }
}
