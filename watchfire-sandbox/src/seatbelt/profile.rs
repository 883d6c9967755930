//! The text of a profile. Of all rules that match, the last one counts, so they go from shallow to deep.

use std::fmt::Write as _;
use std::path::Path;

use watchfire_core::sandbox::{NamePattern, Network, RuleAccess, SandboxPolicy};
use watchfire_core::{Error, ErrorKind, Result};

/// Rules that every program needs, apart from files and network.
const ALWAYS: &str = "\
(allow process-exec* process-fork)
(allow process-info* signal mach-priv-task-port (target same-sandbox))
(allow pseudo-tty)
(allow sysctl-read)
(allow ipc-posix-sem ipc-posix-shm*)
(allow user-preference-read)
(allow system-socket)
(allow mach-lookup
  (global-name \"com.apple.SystemConfiguration.DNSConfiguration\")
  (global-name \"com.apple.SystemConfiguration.configd\")
  (global-name \"com.apple.dnssd.service\")
  (global-name \"com.apple.logd\")
  (global-name \"com.apple.diagnosticd\")
  (global-name \"com.apple.system.notification_center\")
  (global-name \"com.apple.system.opendirectoryd.libinfo\")
  (global-name \"com.apple.system.opendirectoryd.membership\")
  (global-name \"com.apple.bsd.dirhelper\")
  (global-name \"com.apple.trustd\")
  (global-name \"com.apple.trustd.agent\")
  (global-name \"com.apple.cfprefsd.agent\")
  (global-name \"com.apple.cfprefsd.daemon\")
  (global-name \"com.apple.FSEvents\"))
(allow file-read*)
(allow file-ioctl (regex \"^/dev/tty\"))
(allow file-write*
  (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/ptmx\") (literal \"/dev/dtracehelper\")
  (regex \"^/dev/tty\") (regex \"^/dev/fd/\"))
";

/// The profile for a policy whose links are resolved. `tag` ends each message about a denial in the system's log.
///
/// # Errors
/// `invalid_input` for a path that is not Unicode: profiles are text.
pub(super) fn profile(policy: &SandboxPolicy, tag: &str) -> Result<String> {
    let mut text = String::from("(version 1)\n");
    line(&mut text, format_args!("(deny default (with message {}))", quoted(tag)));
    text.push_str(ALWAYS);
    network(&mut text, &policy.network);

    // Rules for a place that a name denies, or below one, are stronger than the name; all others are weaker.
    let named = |path: &Path| {
        policy.patterns.iter().any(|pattern| path.ancestors().any(|ancestor| pattern.matches(ancestor)))
    };
    for rule in policy.rules.iter().filter(|rule| !named(&rule.path)) {
        self::rule(&mut text, policy, &rule.path, rule.access)?;
    }
    for pattern in &policy.patterns {
        names(&mut text, pattern, &pattern.root)?;
    }
    for rule in policy.rules.iter().filter(|rule| named(&rule.path)) {
        self::rule(&mut text, policy, &rule.path, rule.access)?;
        for pattern in policy.patterns.iter().filter(|pattern| rule.path.starts_with(&pattern.root)) {
            names(&mut text, pattern, &rule.path)?;
        }
    }
    Ok(text)
}

fn network(text: &mut String, network: &Network) {
    if *network == Network::Closed {
        return;
    }
    text.push_str("(allow network*)\n");
    // A socket with a path may belong to anybody; names are looked up through this one.
    text.push_str("(deny network-outbound (remote unix-socket))\n");
    text.push_str("(allow network-outbound (literal \"/private/var/run/mDNSResponder\"))\n");
    if let Network::Internet { closed_ports, .. } = network {
        text.push_str("(deny network-outbound (remote ip \"localhost:*\"))\n");
        for port in closed_ports {
            line(text, format_args!("(deny network-outbound (remote ip \"*:{port}\"))"));
        }
    }
    if let Network::OpenExceptPorts(ports) = network {
        for port in ports {
            line(text, format_args!("(deny network-outbound (remote ip \"localhost:{port}\"))"));
        }
    }
}

fn rule(text: &mut String, policy: &SandboxPolicy, path: &Path, access: RuleAccess) -> Result<()> {
    let place = quoted(unicode(path)?);
    match access {
        RuleAccess::Deny => {
            line(text, format_args!("(deny file-read* file-write* process-exec* (subpath {place}))"));
            line(text, format_args!("(deny network-outbound (subpath {place}))"));
        }
        RuleAccess::Read => {
            line(text, format_args!("(allow file-read* process-exec* (subpath {place}))"));
            line(text, format_args!("(deny file-write* (subpath {place}))"));
        }
        RuleAccess::Write => {
            line(text, format_args!("(allow file-read* file-write* process-exec* (subpath {place}))"));
            line(text, format_args!("(allow network-outbound (subpath {place}))"));
        }
    }
    if access == RuleAccess::Write {
        return Ok(());
    }
    // Rules go by name: a folder on the way that is moved would take what is in it out from under them.
    let grants = policy.rules.iter().filter(|other| other.access == RuleAccess::Write);
    let around = grants.filter(|other| other.path != path && path.starts_with(&other.path));
    if let Some(grant) = around.min_by_key(|other| other.path.components().count()) {
        for ancestor in path.ancestors().skip(1).take_while(|ancestor| *ancestor != grant.path) {
            line(text, format_args!("(deny file-write-unlink (literal {}))", quoted(unicode(ancestor)?)));
        }
    }
    Ok(())
}

/// Denies a pattern's names below `root`, and all below them. Public twins are spared where they are files; a folder
/// of such a name is not, for no expression can say "except" of one part of a path.
fn names(text: &mut String, pattern: &NamePattern, root: &Path) -> Result<()> {
    let root = if root == Path::new("/") { String::new() } else { escaped(unicode(root)?) };
    let list = |names: &[String]| names.iter().map(|name| glob(name)).collect::<Vec<_>>().join("|");
    let hit = format!("^{root}/(.*/)?({})", list(&pattern.names));
    line(
        text,
        format_args!("(deny file-read* file-write* process-exec* (regex {}))", quoted(&format!("{hit}/"))),
    );
    let leaf = quoted(&format!("{hit}$"));
    if pattern.except.is_empty() {
        line(text, format_args!("(deny file-read* file-write* process-exec* (regex {leaf}))"));
    } else {
        let spared = quoted(&format!("/({})$", list(&pattern.except)));
        line(
            text,
            format_args!(
                "(deny file-read* file-write* process-exec* \
                 (require-all (regex {leaf}) (require-not (regex {spared}))))"
            ),
        );
    }
    Ok(())
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{arguments}");
}

fn unicode(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "a seatbelt profile cannot name a path that is not unicode")
            .with_path(path)
    })
}

/// As a string of the profile language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the expression of a name, in which each `*` stands for anything, for one part of a path. Letters count in both
/// cases.
fn glob(name: &str) -> String {
    let letter = |letter: char| match letter.is_ascii_alphabetic() {
        true => format!("[{}{}]", letter.to_ascii_lowercase(), letter.to_ascii_uppercase()),
        false => escaped(letter.encode_utf8(&mut [0; 4])),
    };
    let part = |part: &str| part.chars().map(letter).collect::<String>();
    name.split('*').map(part).collect::<Vec<_>>().join("[^/]*")
}

/// Literally, as part of an expression.
fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\^$.|?*+()[]{}".contains(letter) {
            result.push('\\');
        }
        result.push(letter);
    }
    result
}
