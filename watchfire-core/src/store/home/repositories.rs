//! The further repositories of a project, as far as the person allows them.

use std::path::{Path, PathBuf};

use super::project;
use crate::model::{KeyFile, Settings};
use crate::{Error, ErrorKind, Result};

/// Returns the repositories that the project at `root` names. A project's file may come from someone else, so only the
/// settings can give its agents a repository beside its own.
pub(super) fn named(root: &Path, settings: &Settings, user_home: Option<&Path>) -> Result<Vec<PathBuf>> {
    let (root, project) = match project::read(root) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let allowed: Vec<_> = settings.git.repositories.iter().filter_map(|path| real(path, user_home)).collect();
    for entry in &project.repositories {
        let refused = |error: Error| {
            error.with("file", KeyFile::Project).with("field", "repositories").with("value", entry)
        };
        let path = root.join(entry);
        let found = path.canonicalize().map_err(|error| {
            let hint =
                "put the repository there, or take it out of `repositories` in .watchfire/project.yaml";
            refused(Error::io("looking for a repository", error).with_path(&path).with("hint", hint))
        })?;
        if !allowed.iter().any(|allowed| found.starts_with(allowed)) {
            let error = Error::new(ErrorKind::InvalidInput, "your settings do not allow this repository");
            let hint = format!(
                "if its agents may work there, add {} to git.repositories in settings.yaml",
                found.display()
            );
            return Err(refused(error).with("hint", hint));
        }
    }
    Ok(project.repositories.iter().map(PathBuf::from).collect())
}

/// Returns a path of the settings without `~` and links. `None` if it is not there.
fn real(path: &Path, user_home: Option<&Path>) -> Option<PathBuf> {
    let path = match (path.strip_prefix("~"), user_home) {
        (Ok(below), Some(home)) => home.join(below),
        (Ok(_), None) => return None,
        (Err(_), _) => path.to_path_buf(),
    };
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_the_settings_allow_is_a_repository_of_a_project() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        for name in ["app/.watchfire", "lib", "work/deep", "elsewhere"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let write = |list: &str| {
            let text = format!("version: 1\nproject_id: p\nname: app\nrepositories: {list}\n");
            fs::write(at("app/.watchfire/project.yaml"), text).unwrap();
        };
        let mut settings = Settings::default();
        settings.git.repositories = vec!["~/lib".into(), at("work"), at("missing")];
        let named = |settings: &Settings| named(&at("app"), settings, Some(&at("")));
        write("[../lib, ../work/deep]");
        assert_eq!(named(&settings).unwrap(), [Path::new("../lib"), Path::new("../work/deep")]);
        for (list, code) in [("[../lib, ../elsewhere]", "invalid_input"), ("[../missing]", "io")] {
            write(list);
            let error = named(&settings).unwrap_err();
            assert!([code, "not_found"].contains(&error.code()), "{list}: {error:?}");
            assert_eq!(error.detail("field"), Some("repositories"), "{list}");
            assert_eq!(error.detail("file"), Some("project.yaml"), "{list}");
        }
        let missing = named(&settings).unwrap_err();
        assert!(missing.detail("hint").is_some_and(|hint| hint.contains("`repositories`")), "{missing:?}");
        std::os::unix::fs::symlink(at("elsewhere"), at("work/link")).unwrap();
        write("[../work/link]");
        assert!(named(&settings).is_err(), "a link leads out of what is allowed");
        fs::remove_file(at("app/.watchfire/project.yaml")).unwrap();
        assert_eq!(named(&settings).unwrap(), [""; 0].map(PathBuf::from));
    }
}
