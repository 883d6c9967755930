//! Ignored files of the checkout that a task's folder is given: `share` and `copy` of `project.yaml`.

use std::path::{Path, PathBuf};

use crate::Result;
use crate::files::{Dir, read_untrusted};
use crate::model::Project;
use crate::model::form::below_root;
use crate::sandbox::{Access, Bind, Decision, Rule, RuleAccess, SandboxPolicy, Verdict};

/// Limit for the size of a copied file.
const LIMIT: u64 = 16 << 20;

/// The entries of `share` and `copy`, as paths below the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) share: Vec<PathBuf>,
    pub(crate) copy: Vec<PathBuf>,
}

/// Rules and binds for the files that a task's folder was given, and remarks about the rest.
#[derive(Debug, Default)]
pub(crate) struct Provided {
    pub(crate) rules: Vec<Rule>,
    pub(crate) binds: Vec<Bind>,
    pub(crate) remarks: Vec<String>,
}

impl Wanted {
    /// Reads the entries.
    ///
    /// # Errors
    /// `invalid_input` for an entry that is no path below the root.
    pub(crate) fn of(project: &Project) -> Result<Self> {
        let read = |entries: &[String], field: &'static str| {
            let field = || format!("project.yaml: {field}");
            let read = |entry: &String| below_root(entry).map_err(|error| error.with("field", field()));
            entries.iter().map(read).collect::<Result<Vec<_>>>()
        };
        // Before anything starts: at the merge it would be late.
        read(&project.protected, "protected")?;
        Ok(Self { share: read(&project.share, "share")?, copy: read(&project.copy, "copy")? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.share.is_empty() && self.copy.is_empty()
    }

    pub(crate) fn all(&self) -> Vec<PathBuf> {
        self.share.iter().chain(&self.copy).cloned().collect()
    }

    /// Removes entries that git would commit, and returns a remark for each.
    pub(crate) fn keep_ignored(&mut self, ignored: &[PathBuf]) -> Vec<String> {
        let mut remarks = Vec::new();
        for list in [&mut self.share, &mut self.copy] {
            list.retain(|path| {
                let keep = ignored.contains(path);
                if !keep {
                    remarks.push(format!("tasks do not get {}: git does not ignore it", path.display()));
                }
                keep
            });
        }
        remarks
    }

    /// Makes a place for each shared folder in `to`, and copies files there. `base` is the policy of the person and the
    /// project: what it hides is not given. Existing files and folders with content stay as they are. Blocks.
    pub(crate) fn provide(&self, root: &Path, to: &Path, base: &SandboxPolicy) -> Provided {
        let mut provided = Provided::default();
        for path in &self.share {
            match share(root, to, path, base) {
                Ok(bind) => provided.binds.push(bind),
                Err(why) => provided.remarks.push(format!("tasks do not get {}: {why}", path.display())),
            }
        }
        for path in &self.copy {
            match copy(root, to, path, base) {
                Ok(()) => {
                    provided.rules.push(Rule::new(to.join(path), RuleAccess::Write, "project.yaml: copy"))
                }
                Err(why) => provided.remarks.push(format!("tasks do not get {}: {why}", path.display())),
            }
        }
        provided
    }
}

fn share(root: &Path, to: &Path, path: &Path, base: &SandboxPolicy) -> Result<Bind, String> {
    let (source, target) = (root.join(path), to.join(path));
    let real = source.canonicalize().map_err(|_| "it is not there".to_owned())?;
    // A link in a hostile checkout would show the agent any folder of the person.
    if real != source {
        return Err("a link leads to it".to_owned());
    }
    if !real.is_dir() {
        return Err("it is no folder".to_owned());
    }
    allowed(base, &source)?;
    let place = make_folders(to, path)?;
    let mut names = std::fs::read_dir(place.path()).map_err(|error| error.to_string())?;
    // A bind would hide what the branch has there.
    match names.next() {
        Some(_) => Err("the task's folder has files of its own there".to_owned()),
        None => Ok(Bind::layered(source, target, "project.yaml: share")),
    }
}

fn copy(root: &Path, to: &Path, path: &Path, base: &SandboxPolicy) -> Result<(), String> {
    let source = root.join(path);
    allowed(base, &source)?;
    // Reads no link and no special file: the path comes from the repository.
    let bytes = match read_untrusted(&source, LIMIT) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Err("it is not there".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let name = path.file_name().and_then(|name| name.to_str()).ok_or("its name is no text")?;
    let folder = make_folders(to, path.parent().unwrap_or(Path::new("")))?;
    // A copy of an earlier attempt stays, with what its agent made of it.
    if folder.stamp(name).is_some() {
        return Ok(());
    }
    let staged = folder.stage(name, &bytes, 0o600).map_err(|error| error.to_string())?;
    // Appears whole or not at all, and never over a file that the agent has made.
    match folder.rename_new(staged.name(), name) {
        Ok(()) => staged.keep(),
        // Made since the check above, and kept like an earlier copy.
        Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.to_string()),
    }
    Ok(())
}

fn allowed(base: &SandboxPolicy, path: &Path) -> Result<(), String> {
    let Decision { verdict, rule } = base.decide(path, Access::Read);
    match (verdict, rule) {
        (Verdict::Denied, Some(rule)) => Err(format!(
            "it is hidden ({rule}); `sandbox: {{read: [{}]}}` in settings.yaml can allow that",
            path.display()
        )),
        (Verdict::Denied, None) => Err("it is hidden".to_owned()),
        (Verdict::Allowed, _) => Ok(()),
    }
}

/// Opens the folder at `path` below `to`, and creates missing parts. Follows no link, because an agent may
/// have made one.
fn make_folders(to: &Path, path: &Path) -> Result<Dir, String> {
    let mut folder = Dir::open(to).map_err(|error| error.to_string())?;
    for name in path {
        let name = name.to_str().ok_or("its name is no text")?;
        folder = folder.make_child(name, 0o755).map_err(|error| error.to_string())?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::ErrorKind;
    use crate::sandbox::NamePattern;

    fn wanted(share: &[&str], copy: &[&str]) -> Wanted {
        let mut project = Project::new(crate::model::ProjectId::random(), "p");
        project.share = share.iter().map(|text| (*text).to_owned()).collect();
        project.copy = copy.iter().map(|text| (*text).to_owned()).collect();
        Wanted::of(&project).unwrap()
    }

    #[test]
    fn entries_stay_below_the_root() {
        let mut project = Project::new(crate::model::ProjectId::random(), "p");
        for wrong in ["", ".", "/etc", "../x", "a/../../x", ".git", "a/.GIT/hooks", ".watchfire/secrets"] {
            project.share = vec![wrong.to_owned()];
            assert_eq!(Wanted::of(&project).unwrap_err().kind(), ErrorKind::InvalidInput, "{wrong}");
        }
        assert_eq!(wanted(&["./web/node_modules/"], &[]).share, [Path::new("web/node_modules")]);
    }

    #[test]
    fn a_hostile_checkout_gives_nothing_away() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().canonicalize().unwrap().join(name);
        for folder in ["root/real", "root/full", "to/full", "to/sub", "outside"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["outside/key", "root/.env", "root/plain", "root/open.env", "to/full/own"] {
            fs::write(at(file), "text").unwrap();
        }
        symlink(at("outside"), at("root/out")).unwrap();
        symlink(at("outside/key"), at("root/key")).unwrap();
        symlink(at("outside"), at("to/planted")).unwrap();
        fs::create_dir_all(at("root/planted/deep")).unwrap();
        fs::write(at("root/planted/file"), "text").unwrap();
        fs::File::create(at("root/huge")).unwrap().set_len(LIMIT + 1).unwrap();
        let base = SandboxPolicy::builder()
            .read(at("root"), "the project")
            .read(at("root/open.env"), "settings: sandbox.read")
            .pattern(NamePattern {
                root: at("root"),
                names: vec!["*.env".into()],
                except: Vec::new(),
                origin: "secrets".into(),
            })
            .build()
            .unwrap();
        let wanted = wanted(
            &["real", "out", "full", "missing", "planted/deep", "plain"],
            &["plain", "key", ".env", "open.env", "huge", "planted/file", "gone"],
        );
        let provided = wanted.provide(&at("root"), &at("to"), &base);
        let shown: Vec<_> = provided.binds.iter().map(|bind| bind.target.clone()).collect();
        assert_eq!(shown, [at("to/real")]);
        let copied: Vec<_> = provided.rules.iter().map(|rule| rule.path.clone()).collect();
        assert_eq!(copied, [at("to/plain"), at("to/open.env")]);
        assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 1, "nothing is made through a link");
        assert_eq!(provided.remarks.len(), 10, "{:#?}", provided.remarks);
        let said = provided.remarks.join("\n");
        assert!(said.contains("`sandbox: {read: [") && said.contains("root/.env]}`"), "{said}");
        // What an agent made of its copy stays.
        fs::write(at("to/plain"), "changed").unwrap();
        wanted.provide(&at("root"), &at("to"), &base);
        assert_eq!(fs::read_to_string(at("to/plain")).unwrap(), "changed");
    }
}
