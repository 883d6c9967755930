//! `watchfire costs`: adds up what sessions cost.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use watchfire_core::model::{BudgetSettings, Dollars, TaskNumber};
use watchfire_core::orchestrator::{Spent, SpentRecord};

use crate::context::{Context, clock};
use crate::failure::{Exit, Result};
use crate::out::Out;
use crate::text;

#[derive(Args, Debug)]
#[command(after_help = "\
Amounts follow the prices of the providers; where a session told no tokens, or the price of its model is not
known, they are lower bounds. `budget: {task: 5.00, day: 50}` in settings.yaml limits them.

Examples:
  watchfire costs                     what each task cost
  watchfire costs --by day            what each day cost")]
pub(crate) struct CostsArgs {
    /// Add the amounts up by
    #[arg(long, value_enum, default_value_t = By::Task)]
    by: By,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    Task,
    Day,
    Agent,
    Run,
    Session,
}

/// Sum over some sessions.
#[derive(Default)]
struct Sum {
    sessions: usize,
    /// Number of sessions whose cost is not known.
    unknown: usize,
    micros: u64,
    spent: Spent,
}

impl Sum {
    fn add(&mut self, record: &SpentRecord) {
        self.sessions += 1;
        // An agent that reported nothing cannot be told from one that cost nothing, so it counts as unknown.
        self.unknown += usize::from(record.spent.is_nothing() || record.spent.cost.is_none());
        self.micros = self.micros.saturating_add(record.known_cost());
        self.spent = self.spent.plus(record.spent);
    }

    fn of<'a>(records: impl Iterator<Item = &'a SpentRecord>) -> Self {
        let mut sum = Self::default();
        records.for_each(|record| sum.add(record));
        sum
    }

    fn dollars(&self) -> Dollars {
        Dollars::from_micros(self.micros)
    }

    fn amount(&self) -> String {
        match self.unknown {
            0 => self.dollars().to_string(),
            // Otherwise the known part is a lower bound.
            unknown if unknown == self.sessions && self.micros == 0 => "not known".to_owned(),
            _ => format!("at least {}", self.dollars()),
        }
    }

    fn details(&self) -> String {
        let mut parts = vec![text::count(self.sessions, "session")];
        parts.extend(
            (self.unknown > 0 && self.unknown < self.sessions).then(|| format!("{} not known", self.unknown)),
        );
        // Without the cost: it is shown in front, as the amount.
        let tokens = Spent::new(self.spent.usage, None);
        parts.extend((!tokens.is_nothing()).then(|| tokens.to_string()));
        parts.join(", ")
    }

    fn json(&self, of: &str) -> Value {
        json!({
            "of": of,
            "dollars": self.dollars(),
            "is_lower_bound": self.unknown > 0,
            "sessions": self.sessions,
            "usage": self.spent.usage,
        })
    }
}

pub(crate) async fn run(context: &Context, args: CostsArgs) -> Result<Exit> {
    let project = context.project().await?;
    let records = Spent::records(&project.home.logs_dir(&project.id))?;
    let budget = project.home.settings().await?.budget;
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    records.iter().for_each(|record| sums.entry(name(record, args.by)).or_default().add(record));
    let today = clock().now().date();
    // The budget of a day is shared by all projects of the home.
    let logs = project.home.logs_dir(&project.id);
    // The logs of all projects lie beside each other.
    let everywhere = Spent::records_of_home(logs.parent().unwrap_or(&logs));
    let of_today =
        Sum::of(everywhere.iter().filter(|it| it.at.as_ref().is_some_and(|at| at.date() == today)));
    let all = Sum::of(records.iter());
    let value = json!({
        "today": of_today.json(&today),
        "all": all.json("all"),
        "budget": { "task": budget.task, "day": budget.day },
        "costs": sums.iter().map(|(name, sum)| sum.json(name)).collect::<Vec<_>>(),
    });
    context.out.report(value, |out| show(out, &of_today, &all, &sums, &budget, args.by));
    Ok(Exit::Good)
}

fn name(record: &SpentRecord, by: By) -> String {
    let unknown = || "not known".to_owned();
    match by {
        By::Task => record.task.map_or_else(|| "no task".to_owned(), |task: TaskNumber| format!("#{task}")),
        By::Day => record.at.as_ref().map_or_else(unknown, |at| at.date()),
        By::Agent => record.agent.as_ref().map_or_else(unknown, ToString::to_string),
        // Numbers are padded to one length, so that the map sorts them.
        By::Run => record.run.map_or_else(|| "no run".to_owned(), |run| format!("run {:>5}", run.0)),
        By::Session => {
            let log = record.log.file_name().unwrap_or_default().to_string_lossy();
            text::line(&log)
        }
    }
}

fn show(
    out: Out,
    of_today: &Sum,
    all: &Sum,
    sums: &BTreeMap<String, Sum>,
    budget: &BudgetSettings,
    by: By,
) -> String {
    if all.sessions == 0 {
        return "no sessions yet\n".to_owned();
    }
    let of = |limit: Option<Dollars>| limit.map_or_else(String::new, |limit| format!(" of {limit}"));
    // A task's budget says nothing about the sums of days, agents or runs.
    let limit = if matches!(by, By::Task) { budget.task } else { None };
    let mut rows: Vec<(String, String, String)> = sums
        .iter()
        .map(|(name, sum)| (name.clone(), format!("{}{}", sum.amount(), of(limit)), sum.details()))
        .collect();
    rows.push((
        "today, all projects".to_owned(),
        format!("{}{}", of_today.amount(), of(budget.day)),
        of_today.details(),
    ));
    rows.push(("all".to_owned(), all.amount(), all.details()));
    let width = |column: fn(&(String, String, String)) -> &String| {
        rows.iter().map(|row| text::width(column(row))).max().unwrap_or_default()
    };
    let (first, second) = (width(|row| &row.0), width(|row| &row.1));
    let lines = rows.iter().map(|(name, amount, details)| {
        format!("{}  {}  {}\n", text::pad(name, first), text::pad(amount, second), out.style.dim(details))
    });
    lines.collect()
}
