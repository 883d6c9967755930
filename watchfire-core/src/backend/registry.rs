//! The set of known backends: linked, configured, or added by the embedder.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Backend;
use crate::model::{AgentSettings, BackendName, KeyFile, Settings, UnknownKey};
use crate::{Error, ErrorKind, Result};

/// A backend registered by a linked crate. Made by `register_backend!`.
#[doc(hidden)]
pub struct Registration {
    /// Creates the backend.
    pub make: fn() -> Arc<dyn Backend>,
    /// Crate that registered it, for error messages.
    pub origin: &'static str,
}

inventory::collect!(Registration);

/// A constructor of backends for entries of the settings. Made by `register_backend_family!`.
#[doc(hidden)]
pub struct Family {
    /// Creates the backend of that name. An error names the field that is wrong.
    pub make: fn(BackendName, &AgentSettings) -> Result<Arc<dyn Backend>>,
    /// Crate that registered it, for error messages.
    pub origin: &'static str,
}

inventory::collect!(Family);

/// Registers a constructor for backends that exist only as entries of the settings. Takes a `fn(BackendName,
/// &AgentSettings) -> Result<Arc<dyn Backend>>`; see
/// [`Backends::with_configured`](crate::backend::Backends::with_configured).
#[macro_export]
macro_rules! register_backend_family {
    ($make:expr) => {
        $crate::backend::__inventory::submit! {
            $crate::backend::Family { make: $make, origin: ::std::env!("CARGO_PKG_NAME") }
        }
    };
}

/// Registers a backend in every program that links the calling crate. Takes an expression that creates it.
///
/// ```
/// # use watchfire_core::backend::{Backend, Launch, LocatedProgram, ProgramSearch, SessionContext};
/// # use watchfire_core::Result;
/// # #[derive(Debug)] struct Mine;
/// # impl Backend for Mine {
/// #     fn name(&self) -> &str { "mine" }
/// #     fn locate(&self, s: &ProgramSearch) -> Result<LocatedProgram> { s.find("mine", &[]).map(LocatedProgram::new) }
/// #     fn prepare(&self, c: &SessionContext) -> Result<Launch> { Ok(Launch::new(&c.program)) }
/// # }
/// watchfire_core::register_backend!(Mine);
/// # assert!(watchfire_core::backend::Backends::linked().unwrap().get("mine").is_ok());
/// ```
///
/// A crate that is linked only for its registrations needs a `use my_backend as _;`, or the linker drops it.
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
    /// Returns the backends of all linked crates.
    ///
    /// # Errors
    /// `already_exists` with both crates if two linked backends have one name; `invalid_input` for an invalid name.
    pub fn linked() -> Result<Self> {
        let mut backends = Self::default();
        for registration in inventory::iter::<Registration> {
            let backend = (registration.make)();
            let name: BackendName = backend.name().parse()?;
            // The order of registration is the linker's, so neither of the two could be preferred predictably.
            if let Some((_, other)) = backends.by_name.get(&name) {
                return Err(Error::new(ErrorKind::AlreadyExists, "two linked backends have one name")
                    .with("name", name)
                    .with("crates", format_args!("{other}, {}", registration.origin)));
            }
            backends.by_name.insert(name, (backend, registration.origin));
        }
        Ok(backends)
    }

    /// Adds a backend for each entry of `agents` in the settings that has a `path` and the name of no known backend. The
    /// linked crate that called [`register_backend_family!`](crate::register_backend_family) creates it.
    ///
    /// # Errors
    /// `invalid_input` for an invalid name or option; `already_exists` if two linked crates could create it.
    pub fn with_configured(mut self, settings: &Settings) -> Result<Self> {
        let mut families = inventory::iter::<Family>.into_iter();
        // Without a family, entries of the settings can only adjust the backends that are known.
        let Some(family) = families.next() else { return Ok(self) };
        if let Some(other) = families.next() {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                "two linked crates make backends from settings",
            )
            .with("crates", format_args!("{}, {}", family.origin, other.origin)));
        }
        for (name, entry) in &settings.agents {
            // Only an entry with a program can be an agent of its own. All others adjust a known backend.
            if entry.path.is_some() && self.get(name).is_err() {
                let name: BackendName = name.parse()?;
                let backend = (family.make)(name.clone(), entry)?;
                self.by_name.insert(name, (backend, "settings"));
            }
        }
        Ok(self)
    }

    /// Adds a backend, replacing and returning one of the same name.
    ///
    /// # Errors
    /// `invalid_input` for an invalid name.
    #[cfg(any(test, feature = "orchestrator"))]
    pub(crate) fn insert(&mut self, backend: Arc<dyn Backend>) -> Result<Option<Arc<dyn Backend>>> {
        let name = backend.name().parse()?;
        Ok(self.by_name.insert(name, (backend, "builder")).map(|(old, _)| old))
    }

    /// Returns the backend with this name, or else the one with this alias.
    ///
    /// # Errors
    /// `unknown_backend`, with the known names. Never falls back to another backend.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Backend>> {
        // Names go before aliases, or a newly linked backend could take over requests for another one.
        let named =
            self.by_name.iter().find(|(known, _)| known.as_str() == name).map(|(_, (backend, _))| backend);
        let found = named.or_else(|| self.iter().find(|backend| backend.aliases().contains(&name)));
        found.map(Arc::clone).ok_or_else(|| {
            let known: Vec<_> = self.by_name.keys().map(BackendName::as_str).collect();
            let away = |known: &&str| strsim::damerau_levenshtein(known, &name.to_lowercase());
            let meant = known.iter().copied().min_by_key(away).filter(|known| away(known) <= name.len() / 3);
            let error = Error::new(ErrorKind::UnknownBackend, "unknown agent")
                .with("name", name)
                .with("known", if known.is_empty() { "none".to_owned() } else { known.join(", ") });
            match meant {
                Some(meant) => error.with("hint", format_args!("did you mean {meant}?")),
                None => error,
            }
        })
    }

    /// Returns the keys below `agents` in the settings that have no effect: entries for unknown agents, and options that the
    /// agent does not read.
    #[must_use]
    pub fn unread_settings(&self, settings: &Settings) -> Vec<UnknownKey> {
        let mut found = Vec::new();
        for (name, entry) in settings.agents.iter().filter(|(name, _)| !name.starts_with("x-")) {
            match self.get(name).map(|backend| backend.capabilities().options) {
                Ok(Some(read)) => {
                    let unread = entry.options_named().filter(|option| !read.contains(option));
                    found.extend(unread.map(|option| UnknownKey::of_agent(name, option)));
                }
                // A program whose options are wrong is an error of its own.
                Ok(None) => {}
                Err(_) if entry.path.is_some() => {}
                Err(_) => {
                    let path = format!("agents.{name}");
                    found.push(UnknownKey { file: KeyFile::Settings, path, nearest: None });
                }
            }
        }
        found
    }

    /// Yields all backends, ordered by name.
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
