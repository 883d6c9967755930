#![doc = include_str!("../../../README.md")]
#![forbid(unsafe_code)]

/// The pages of the book whose blocks are Rust.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/embed.md")]
    mod embed {}
    #[doc = include_str!("../../../docs/hosting.md")]
    mod hosting {}
    #[doc = include_str!("../../../docs/write-a-backend.md")]
    mod write_a_backend {}
    #[doc = include_str!("../../../docs/write-a-sandbox.md")]
    mod write_a_sandbox {}
    #[doc = include_str!("../../../docs/write-a-store.md")]
    mod write_a_store {}
    #[doc = include_str!("../../../docs/write-a-terminal.md")]
    mod write_a_terminal {}
    #[doc = include_str!("../../../docs/write-a-workspace.md")]
    mod write_a_workspace {}
}
