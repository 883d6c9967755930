//! `watchfire daemon install`: lets the machine start the daemon with the person's session.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use watchfire_core::{Error, ErrorKind};

use crate::context::Context;
use crate::failure::{Exit, Result};

#[derive(Args, Debug)]
#[command(after_help = "\
A unit of systemd for your user, or a launch agent on a Mac. Agents are left alone when it is stopped or started anew.

Examples:
  watchfire daemon install
  watchfire daemon install --print > watchfire.service
  watchfire daemon install --remove")]
pub(crate) struct InstallArgs {
    /// Print the file instead of writing it
    #[arg(long)]
    print: bool,
    /// Remove the file
    #[arg(long, conflicts_with = "print")]
    remove: bool,
}

pub(crate) fn run(context: &Context, watchfire_home: &Path, args: &InstallArgs) -> Result<Exit> {
    let program = std::env::current_exe().map_err(|e| Error::io("finding this program", e))?;
    // A daemon that a command has started would be in the way of theirs.
    let stop = "watchfire daemon stop";
    let (path, text, next, last) = if cfg!(target_os = "macos") {
        let path = home()?.join("Library/LaunchAgents/dev.watchfire.daemon.plist");
        let next = format!("{stop}; launchctl load -w {}", path.display());
        (path, plist(&program, watchfire_home)?, next, "launchctl remove dev.watchfire.daemon")
    } else {
        let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let config = config.map_or_else(|| home().map(|home| home.join(".config")), Ok)?;
        let next =
            format!("{stop}; systemctl --user daemon-reload && systemctl --user enable --now watchfire");
        let last = "systemctl --user stop watchfire; systemctl --user daemon-reload";
        (config.join("systemd/user/watchfire.service"), unit(&program, watchfire_home)?, next, last)
    };
    // As text, for a path that is not UTF-8 cannot be a value.
    let shown = path.display().to_string();
    if args.print {
        context.out.verbatim(json!({ "path": shown, "text": text }), &text);
        return Ok(Exit::Good);
    }
    if args.remove {
        let gone = match fs::remove_file(&path) {
            Ok(()) => {
                // The link that `systemctl enable` made.
                let enabled = path.with_file_name("default.target.wants/watchfire.service");
                let _ = fs::remove_file(enabled);
                true
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(Error::io("removing the file", error).with_path(path).into()),
        };
        context.out.report(json!({ "removed": gone, "path": shown, "next": last }), |out| match gone {
            true => format!("removed {shown}\n{}\n", out.style.dim(&format!("next: {last}"))),
            false => "it was not there\n".to_owned(),
        });
        return Ok(Exit::Good);
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|e| Error::io("making the folder", e).with_path(folder))?;
    }
    watchfire_core::files::Replace::new().write(&path, text.as_bytes())?;
    context.out.report(json!({ "path": shown, "next": next }), |out| {
        format!("wrote {shown}\n{}\n", out.style.dim(&format!("next: {next}")))
    });
    Ok(Exit::Good)
}

fn home() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    Ok(home.ok_or_else(|| Error::new(ErrorKind::InvalidInput, "HOME is not set"))?)
}

/// Returns the text of a path for a file whose lines end values.
fn text(path: &Path) -> Result<&str> {
    let text = path.to_str().filter(|text| !text.contains(['\n', '\r', '"', '\\']));
    Ok(text.ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "a path with such characters cannot be installed").with_path(path)
    })?)
}

/// Returns the systemd unit. It names the home, because systemd starts it without the variables of a terminal.
fn unit(program: &Path, home: &Path) -> Result<String> {
    // `%` begins a specifier, and `$` a variable.
    let quoted = |path| Ok::<_, crate::failure::Failure>(text(path)?.replace('%', "%%").replace('$', "$$"));
    let (program, home) = (quoted(program)?, text(home)?.replace('%', "%%"));
    let allocator = watchfire_client::ALLOCATOR.map(|(name, value)| format!("{name}={value}")).join(" ");
    Ok(format!(
        "[Unit]\nDescription=Watchfire\n\n[Service]\nExecStart=\"{program}\" daemon start --foreground\n\
         Environment=\"WATCHFIRE_HOME={home}\" {allocator}\nRestart=on-failure\n\
         # Else a restart of the unit ends the agents too, and an agent that takes too much memory the daemon.\n\
         KillMode=process\nOOMPolicy=continue\n\n[Install]\nWantedBy=default.target\n"
    ))
}

fn plist(program: &Path, home: &Path) -> Result<String> {
    let escaped = |path| {
        let text = text(path)?;
        Ok::<_, crate::failure::Failure>(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
    };
    let (program, home) = (escaped(program)?, escaped(home)?);
    Ok(format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\"><dict>\n\
         <key>Label</key><string>dev.watchfire.daemon</string>\n\
         <key>ProgramArguments</key><array><string>{program}</string><string>daemon</string><string>start</string>\
         <string>--foreground</string></array>\n\
         <key>EnvironmentVariables</key><dict><key>WATCHFIRE_HOME</key><string>{home}</string></dict>\n\
         <key>RunAtLoad</key><true/>\n\
         <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n\
         <key>AbandonProcessGroup</key><true/>\n\
         </dict></plist>\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_as_each_wants_it() {
        let (program, home) = (Path::new("/opt/my tools/100%/wf"), Path::new("/home/u & v/$x"));
        let unit = unit(program, home).unwrap();
        assert!(unit.contains("ExecStart=\"/opt/my tools/100%%/wf\" daemon start --foreground\n"), "{unit}");
        assert!(
            unit.contains("Environment=\"WATCHFIRE_HOME=/home/u & v/$x\" MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=131072\n"),
            "{unit}"
        );
        assert!(unit.contains("KillMode=process\nOOMPolicy=continue\n"), "{unit}");
        assert!(plist(program, home).unwrap().contains("<string>/home/u &amp; v/$x</string>"));
        assert!(super::unit(Path::new("/a\n[Service]"), home).is_err());
        assert!(super::unit(Path::new("/a\"b"), home).is_err());
    }
}
