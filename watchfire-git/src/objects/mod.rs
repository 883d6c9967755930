//! Objects: how they are read, compared, checked and made. Nothing here knows a project, its references or a checkout.

pub(crate) mod commit;
pub(crate) mod commit_object;
pub(crate) mod id;
pub(crate) mod tag_object;
pub(crate) mod text;
pub(crate) mod tree;
pub(crate) mod tree_diff;
pub(crate) mod tree_edit;
pub(crate) mod tree_path;
pub(crate) mod verify;
