//! The scripted agent as a program of its own; see `watchfire_backends::scripted`.

#![forbid(unsafe_code)]

fn main() {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    std::process::exit(watchfire_backends::scripted::run(&args));
}
