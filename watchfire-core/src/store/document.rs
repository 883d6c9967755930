//! Documents of a project: texts of people and agents besides tasks.

use std::fmt;

use super::{Fence, ProjectPatch, Revision, TaskStore, Versioned};
use crate::model::PromptSection;
use crate::{Error, ErrorKind, Result};

/// A document of a project.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum DocumentName {
    /// The definition of the project, a field of the project itself.
    Definition,
    /// The person's instructions for every session. They stay on this machine.
    Instructions,
    /// Notes that agents leave for later agents.
    Memory,
    /// The project's own text of a section of the prompts. An empty one leaves the section out.
    Prompt(PromptSection),
}

impl DocumentName {
    /// All documents.
    pub const ALL: &'static [Self] = &{
        // A constant cannot be built with iterators, so the array is filled by index: three fixed names, then
        // the sections.
        let mut all = [Self::Definition; 3 + PromptSection::ALL.len()];
        (all[1], all[2]) = (Self::Instructions, Self::Memory);
        let mut at = 0;
        while at < PromptSection::ALL.len() {
            all[3 + at] = Self::Prompt(PromptSection::ALL[at]);
            at += 1;
        }
        all
    };
}

impl fmt::Display for DocumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Definition => f.write_str("definition"),
            Self::Instructions => f.write_str("instructions"),
            Self::Memory => f.write_str("memory"),
            Self::Prompt(section) => write!(f, "prompts/{section}"),
        }
    }
}

/// Returns the definition as a document.
pub(super) async fn definition<S: TaskStore + ?Sized>(store: &S) -> Result<Option<Versioned<String>>> {
    let project = store.project().await?;
    let definition = Versioned { value: project.value.definition, revision: project.revision };
    // The project's file leaves an empty definition out, so empty and absent are the same.
    Ok(Some(definition).filter(|definition| !definition.value.is_empty()))
}

/// Writes the definition as a document. Its revision is the project's.
pub(super) async fn write_definition<S: TaskStore + ?Sized>(
    store: &S,
    text: &str,
    expected: Option<&Revision>,
    fence: Option<Fence>,
) -> Result<Versioned<String>> {
    // An empty definition counts as absent. The write must then still be bound to the project as it was read.
    let project = match expected {
        Some(expected) if *expected == Revision::absent() => Some(store.project().await?),
        _ => None,
    };
    if project.as_ref().is_some_and(|project| !project.value.definition.is_empty()) {
        return Err(Error::new(ErrorKind::Conflict, "the document exists already")
            .with("document", DocumentName::Definition));
    }
    let expected = project.as_ref().map(|project| &project.revision).or(expected);
    let project = store.update_project(ProjectPatch::new().with_definition(text), expected, fence).await?;
    Ok(Versioned { value: project.value.definition, revision: project.revision })
}
