//! Finds programs and their versions without starting them.

use std::fs;
use std::path::{Path, PathBuf};

use watchfire_core::backend::{Grant, LocatedProgram, ProgramSearch, SessionContext};
use watchfire_core::{Error, Result};

/// Usual folders of programs that may not be on `PATH`.
const PLACES: &[&str] =
    &["~/.local/bin", "~/.npm-global/bin", "~/bin", "/usr/local/bin", "/opt/homebrew/bin"];

/// Finds `program` of an npm package. A version counts as tested if its first two numbers equal those in `tested`.
pub(crate) fn npm(
    search: &ProgramSearch,
    program: &str,
    more_places: &[&str],
    tested: &str,
    hint: Option<String>,
) -> Result<LocatedProgram> {
    let places: Vec<&str> = more_places.iter().chain(PLACES).copied().collect();
    let path = search.find(program, &places).map_err(|error| with_hint(error, hint))?;
    let mut located = LocatedProgram::new(path);
    located.version = version(&located.program);
    located.tested = located.version.as_ref().map(|version| release(version) == release(tested));
    Ok(located)
}

/// Returns the paths that must be readable for a program to run, wherever it was installed: the folder of its link,
/// because some programs look at the name that they were started by, and its package. Never the person's whole home.
pub(crate) fn grants(context: &SessionContext) -> Vec<Grant> {
    let program = &context.program;
    let real = fs::canonicalize(program).unwrap_or_else(|_| program.clone());
    let broad = |folder: &PathBuf| {
        let home = context.user_home.as_deref();
        folder.parent().is_none() || home.is_some_and(|home| home.starts_with(folder))
    };
    let package = package(&real);
    let interpreter = package.as_deref().and_then(interpreter);
    let folders = [program.parent().map(Path::to_path_buf), package, interpreter];
    let mut paths: Vec<PathBuf> = folders.into_iter().flatten().filter(|folder| !broad(folder)).collect();
    // A program right below the home: the two files alone.
    if paths.is_empty() {
        paths.extend([program.clone(), real]);
    }
    // A program may lie right in the folder of its package.
    paths.dedup();
    paths.into_iter().filter(|path| path.is_absolute()).map(Grant::Read).collect()
}

/// Returns the folder that holds all of a program: the outermost `node_modules`, because a package's native parts are
/// packages of their own; or a Python environment; or else the folder that the program is in.
fn package(real: &Path) -> Option<PathBuf> {
    let modules = real.ancestors().filter(|path| path.file_name().is_some_and(|name| name == "node_modules"));
    let environment = || real.parent()?.parent().filter(|folder| folder.join("pyvenv.cfg").is_file());
    modules.last().or_else(environment).or_else(|| real.parent()).map(Path::to_path_buf)
}

/// Returns the folder of the Python that an environment was made from, which may be in the person's home too.
fn interpreter(environment: &Path) -> Option<PathBuf> {
    let about = fs::read_to_string(environment.join("pyvenv.cfg")).ok()?;
    let home = about.lines().find_map(|line| line.split_once('=').filter(|(key, _)| key.trim() == "home"))?;
    Path::new(home.1.trim()).parent().map(Path::to_path_buf)
}

/// Adds a hint for the installation of a missing program.
pub(crate) fn with_hint(error: Error, hint: Option<String>) -> Error {
    match hint {
        Some(hint) => error.with("hint", hint),
        None => error,
    }
}

/// Returns the version from the nearest `package.json` above the program, or from the name of the program's own file,
/// where the installer puts it.
pub(crate) fn version(program: &Path) -> Option<String> {
    let real = fs::canonicalize(program).ok()?;
    let name = real.file_name()?.to_str()?;
    if name.split('.').count() >= 3 && name.split('.').all(|part| part.parse::<u32>().is_ok()) {
        return Some(name.to_owned());
    }
    let package =
        // Not further up: a `package.json` there would belong to another project.
        real.ancestors().skip(1).take(4).map(|dir| dir.join("package.json")).find(|path| path.is_file())?;
    let package: serde_json::Value = serde_json::from_slice(&fs::read(package).ok()?).ok()?;
    Some(package.get("version")?.as_str()?.to_owned())
}

fn release(version: &str) -> Vec<&str> {
    version.split('.').take(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn reads_the_version_without_starting_anything() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("lib/node_modules/@v/agent");
        fs::create_dir_all(package.join("bin")).unwrap();
        fs::create_dir(dir.path().join("bin")).unwrap();
        fs::write(package.join("package.json"), r#"{"name":"@v/agent","version":"2.1.330"}"#).unwrap();
        fs::write(package.join("bin/agent.js"), "").unwrap();
        fs::set_permissions(package.join("bin/agent.js"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("../lib/node_modules/@v/agent/bin/agent.js", dir.path().join("bin/agent")).unwrap();
        let search = ProgramSearch::new(Some(dir.path().join("bin").into()), None);
        let found = npm(&search, "agent", &[], "2.1.9", None).unwrap();
        assert_eq!((found.version.as_deref(), found.tested), (Some("2.1.330"), Some(true)));
        let found = npm(&search, "agent", &[], "2.0.0", None).unwrap();
        assert_eq!(found.tested, Some(false));
        let error = npm(&search, "other", &[], "1", Some("npm i other".into())).unwrap_err();
        assert_eq!(error.detail("hint"), Some("npm i other"));
    }

    #[test]
    fn a_program_may_read_its_package_and_never_the_whole_home() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for name in ["lib/node_modules/@v/agent/node_modules/x", "venv/bin", "bin", "home"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        let program = at("lib/node_modules/@v/agent/node_modules/x/agent.js");
        for path in [&program, &at("venv/bin/agent"), &at("home/agent")] {
            fs::write(path, "").unwrap();
        }
        let made_of = format!("home = {}\nversion = 3.11.7\n", at("home/python/3.11/bin").display());
        fs::write(at("venv/pyvenv.cfg"), made_of).unwrap();
        symlink(&program, at("bin/agent")).unwrap();
        let granted = |program: &Path| {
            let mut context = SessionContext::new(
                "s1".parse().unwrap(),
                "agent".parse().unwrap(),
                watchfire_core::model::Mode::Task,
                program,
                "/h",
                "/w",
            );
            context.user_home = Some(at("home"));
            grants(&context).iter().map(|grant| grant.path().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(granted(&at("bin/agent")), [at("bin"), at("lib/node_modules")]);
        assert_eq!(granted(&at("venv/bin/agent")), [at("venv/bin"), at("venv"), at("home/python/3.11")]);
        assert_eq!(granted(&at("home/agent")), [at("home/agent")]);
    }
}
