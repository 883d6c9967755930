//! Figures beside their bounds.

use std::fmt;

#[derive(Default)]
pub(crate) struct Table {
    title: String,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    value: f64,
    unit: &'static str,
    bound: Option<f64>,
}

impl Table {
    pub(crate) fn title(&mut self, title: impl Into<String>) {
        self.title = title.into();
    }

    /// Adds a figure that may be at most `bound`.
    pub(crate) fn bounded(&mut self, name: impl Into<String>, value: f64, unit: &'static str, bound: f64) {
        self.rows.push(Row { name: name.into(), value, unit, bound: Some(bound) });
    }

    /// Adds a figure without a bound.
    pub(crate) fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.rows.push(Row { name: name.into(), value, unit, bound: None });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}", self.title)?;
        for Row { name, value, unit, bound } in &self.rows {
            write!(f, "  {name:<52} {value:>9.2} {unit:<6}")?;
            match bound {
                Some(bound) => {
                    let verdict = if value <= bound { "meets" } else { "misses" };
                    writeln!(f, " {verdict:<6} (at most {bound})")?;
                }
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
