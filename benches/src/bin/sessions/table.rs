//! Figures beside their bounds.

/// A table that is printed figure by figure: a measurement takes minutes, and may fail before its end.
pub(crate) struct Table {
    title: Option<String>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { title: None }
    }

    pub(crate) fn title(&mut self, title: impl Into<String>) {
        self.title = Some(title.into());
    }

    /// Prints a figure that may be at most `bound`.
    pub(crate) fn bounded(&mut self, name: impl AsRef<str>, value: f64, unit: &str, bound: f64) {
        let verdict = if value <= bound { "meets" } else { "misses" };
        self.row(name.as_ref(), value, unit, &format!(" {verdict:<6} (at most {bound})"));
    }

    /// Prints a figure without a bound.
    pub(crate) fn figure(&mut self, name: impl AsRef<str>, value: f64, unit: &str) {
        self.row(name.as_ref(), value, unit, "");
    }

    /// Prints the title, if it has no figure yet.
    pub(crate) fn end(mut self) {
        self.head();
    }

    fn head(&mut self) {
        if let Some(title) = self.title.take() {
            println!("\n{title}");
        }
    }

    fn row(&mut self, name: &str, value: f64, unit: &str, rest: &str) {
        self.head();
        println!("  {name:<52} {value:>9.2} {unit:<6}{rest}");
    }
}
