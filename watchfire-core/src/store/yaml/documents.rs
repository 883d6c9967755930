//! Documents as files beside the tasks.

use std::borrow::Cow;

use rustix::fs::RawMode;

use super::atomic::{unreadable, write_text};
use super::engine::Engine;
use crate::files::{Dir, Unread};
use crate::store::ledger::Ledger;
use crate::store::yaml::revision;
use crate::store::{DocumentName, Fence, Revision, Versioned};
use crate::{Error, ErrorKind, Result};

/// Size limit of a document. Agents read it whole.
const LIMIT: u64 = 1 << 20;

/// The file of a document, or `None` for the definition, which is a field of the project.
struct Place {
    /// Subfolder of `.watchfire` and its mode.
    folder: Option<(&'static str, RawMode)>,
    name: Cow<'static, str>,
    mode: RawMode,
}

fn place(name: DocumentName) -> Option<Place> {
    match name {
        DocumentName::Definition => None,
        DocumentName::Instructions => {
            Some(Place { folder: Some(("secrets", 0o700)), name: "instructions.md".into(), mode: 0o600 })
        }
        DocumentName::Memory => Some(Place { folder: None, name: "memory.md".into(), mode: 0o644 }),
        DocumentName::Prompt(section) => Some(Place {
            folder: Some(("prompts", 0o755)),
            name: format!("{section}.md").into(),
            mode: 0o644,
        }),
    }
}

/// Returns true if the document has a file of its own.
pub(super) fn has_file(name: DocumentName) -> bool {
    place(name).is_some()
}

impl Engine {
    pub(super) fn document(&self, name: DocumentName) -> Result<Option<Versioned<String>>> {
        let Some(place) = place(name) else { return Ok(None) };
        let watchfire = self.watchfire()?;
        let folder = match place.folder {
            Some((folder, _)) => watchfire.child(folder)?,
            None => Some(watchfire),
        };
        let Some(folder) = folder else { return Ok(None) };
        match folder.read(&place.name, LIMIT) {
            Ok((bytes, _)) => Ok(Some(Versioned {
                revision: revision(&bytes),
                value: String::from_utf8_lossy(&bytes).into_owned(),
            })),
            Err(Unread::Missing) => Ok(None),
            Err(unread) => Err(unreadable(&folder, &place.name, unread.into())),
        }
    }

    pub(super) fn write_document(
        &self,
        name: DocumentName,
        text: &str,
        expected: Option<&Revision>,
        fence: Option<Fence>,
    ) -> Result<Versioned<String>> {
        let Some(place) = place(name) else {
            return Err(Error::new(ErrorKind::Internal, "the document has no file").with("document", name));
        };
        if text.len() as u64 > LIMIT {
            return Err(Error::new(ErrorKind::InvalidInput, "the document is too large").with("limit", LIMIT));
        }
        // The store's lock before that of the claims, in every function, so that two writers cannot deadlock.
        let _lock = self.lock()?;
        let _fenced = self.claims.guard(fence, Ledger::check)?;
        let watchfire = self.watchfire()?;
        let folder: Dir = match place.folder {
            Some((folder, mode)) => watchfire.make_child(folder, mode)?,
            None => watchfire,
        };
        let revision = write_text(&folder, &place.name, text, expected, place.mode)?;
        Ok(Versioned { value: text.to_owned(), revision })
    }
}
