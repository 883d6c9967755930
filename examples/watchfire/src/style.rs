//! Colours text where that is wanted.

/// Painter of text, which may be switched off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    on: bool,
}

impl Style {
    /// Returns the style for a stream: colours on a terminal, unless `NO_COLOR` is set or the terminal is a dumb one.
    pub(crate) fn new(is_terminal: bool) -> Self {
        // An empty `NO_COLOR` counts as not set, as <https://no-color.org> has it.
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self { on: is_terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb") }
    }

    fn paint(self, codes: &str, text: &str) -> String {
        if self.on && !text.is_empty() { format!("\x1b[{codes}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }
}
