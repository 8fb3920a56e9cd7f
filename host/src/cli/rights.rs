//! The commands about rights: what a plugin asks for, is granted and lacks.

pub(crate) mod examine;
pub(crate) mod grant;
pub(crate) mod inspect;
pub(crate) mod object_files;
pub(crate) mod own_review;
pub(crate) mod rbac;
pub(crate) mod rbac_check;
