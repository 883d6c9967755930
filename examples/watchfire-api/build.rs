//! Compiles the interface. protox is a compiler in Rust, so that no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let services = [
        "proto/watchfire.proto",
        "proto/watchfire/observe/v1/observe.proto",
        "proto/watchfire/talk/v1/talk.proto",
        "proto/watchfire/work/v1/work.proto",
        "proto/watchfire/work/v1/report.proto",
    ];
    let files = protox::compile(services, ["proto"])?;
    // For clients that ask the server what it can do.
    let descriptors = std::path::Path::new(&std::env::var("OUT_DIR")?).join("watchfire.bin");
    std::fs::write(descriptors, prost::Message::encode_to_vec(&files))?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
