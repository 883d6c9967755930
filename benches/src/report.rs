//! The table.

use std::fmt;

/// Rows of figures, each with what it is compared with.
#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
    skipped: Vec<String>,
}

#[derive(Debug)]
struct Row {
    section: String,
    name: String,
    unit: &'static str,
    samples: Vec<f64>,
    /// Pair by pair.
    ratios: Option<(&'static str, Vec<f64>)>,
}

impl Report {
    /// Adds a figure.
    pub fn add(
        &mut self,
        section: impl Into<String>,
        name: impl Into<String>,
        unit: &'static str,
        samples: Vec<f64>,
    ) {
        self.rows.push(Row { section: section.into(), name: name.into(), unit, samples, ratios: None });
    }

    /// Adds a figure and its ratio to `base`, pair by pair.
    pub fn compare(
        &mut self,
        section: impl Into<String>,
        name: impl Into<String>,
        unit: &'static str,
        samples: Vec<f64>,
        to: &'static str,
        base: &[f64],
    ) {
        let ratios = samples.iter().zip(base).filter(|(_, base)| **base > 0.0).map(|(a, b)| a / b).collect();
        let (section, name) = (section.into(), name.into());
        self.rows.push(Row { section, name, unit, samples, ratios: Some((to, ratios)) });
    }

    /// Says what could not be measured here.
    pub fn skip(&mut self, what: &str, why: &str) {
        self.skipped.push(format!("{what}: SKIPPED, {why}"));
    }

    /// The same as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                serde_json::json!({
                    "section": row.section,
                    "name": row.name,
                    "unit": row.unit,
                    "samples": row.samples.len(),
                    "median": median(&row.samples),
                    "min": smallest(&row.samples),
                    "ratio_to": row.ratios.as_ref().map(|(to, _)| to),
                    "ratio": row.ratios.as_ref().map(|(_, ratios)| median(ratios)),
                })
            })
            .collect();
        serde_json::json!({ "rows": rows, "skipped": self.skipped }).to_string()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut section = "";
        for row in &self.rows {
            if row.section != section {
                section = &row.section;
                writeln!(f, "\n{section}\n{:<44} {:>10} {:>10}  ratio", "", "median", "best")?;
            }
            write!(
                f,
                "{:<44} {:>7.2} {:<2} {:>7.2} {:<2}",
                row.name,
                median(&row.samples),
                row.unit,
                smallest(&row.samples),
                row.unit
            )?;
            match &row.ratios {
                Some((to, ratios)) => writeln!(f, "  {:.2}x of {to}", median(ratios))?,
                None => writeln!(f)?,
            }
        }
        self.skipped.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// The middle one.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn smallest(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::NAN, f64::min)
}
