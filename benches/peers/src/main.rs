//! Terminal emulators side by side, in one process, interleaved.

mod conformance;
mod cores;
mod memory;
mod streams;
mod timing;

use serde_json::{Value, json};

const HELP: &str = "usage: terminal [--json] [--quick] [--core NAME]... [--stream NAME]... [--only streams|memory|resize|snapshot|conformance]";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, core, kind, count] = &*arguments
        && flag == "--measure-memory"
    {
        return memory::measure(core, kind, count.parse().unwrap_or(1));
    }
    let mut json = false;
    let mut options = timing::Options::default();
    let (mut cores, mut only) = (Vec::new(), None);
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        match &*argument {
            "--json" => json = true,
            "--quick" => options.quick = true,
            "--core" => cores.extend(rest.next()),
            "--stream" => options.streams.extend(rest.next()),
            "--only" => only = rest.next(),
            _ => return println!("{HELP}"),
        }
    }
    let names: Vec<&'static str> =
        cores::NAMES.iter().copied().filter(|name| cores.is_empty() || cores.iter().any(|core| core == name)).collect();
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    std::panic::set_hook(Box::new(|_| {}));
    let mut result = serde_json::Map::new();
    for (part, run) in [
        ("streams", timing::streams as fn(&[&'static str], &timing::Options) -> Vec<Value>),
        ("resize", timing::resize),
        ("snapshot", timing::snapshot),
        ("memory", |names, _| memory::table(names)),
        ("conformance", |names, _| conformance::table(names)),
    ] {
        if wanted(part) {
            let rows = run(&names, &options);
            if !json {
                print_table(part, &names, &rows);
            }
            result.insert(part.into(), json!(rows));
        }
    }
    if json {
        println!("{}", Value::Object(result));
    }
}

/// Rows of `{"name", UNIT: {core: number}}`, with ratios of ours to each.
fn print_table(part: &str, names: &[&str], rows: &[Value]) {
    println!("\n{part}");
    print!("{:24}", "");
    names.iter().for_each(|name| print!("{name:>20}"));
    println!();
    let mut products: Vec<(f64, u32)> = vec![(0.0, 0); names.len()];
    for row in rows {
        let Some((unit, values)) = row.as_object().and_then(|row| row.iter().find(|(_, value)| value.is_object())) else {
            continue;
        };
        let ours = values["watchfire-term"].as_f64();
        print!("{:24}", format!("{} {unit}", row["name"].as_str().unwrap_or("")));
        for (index, name) in names.iter().enumerate() {
            match values[*name].as_f64() {
                Some(value) => {
                    // How many times better ours is.
                    let better = ours.map(|ours| if matches!(&**unit, "mb_s" | "passed") { ours / value } else { value / ours });
                    if let Some(better) = better.filter(|better| better.is_finite() && *better > 0.0) {
                        products[index].0 += better.ln();
                        products[index].1 += 1;
                    }
                    let better = better.map_or(String::new(), |better| format!(" ({better:.2})"));
                    print!("{:>20}", format!("{value:.2}{better}"));
                }
                None => print!("{:>20}", "-"),
            }
        }
        println!();
    }
    print!("{:24}", "geometric mean");
    for (sum, count) in products {
        let mean = if count > 0 { format!("({:.2})", (sum / f64::from(count)).exp()) } else { "-".into() };
        print!("{mean:>20}");
    }
    println!();
}
