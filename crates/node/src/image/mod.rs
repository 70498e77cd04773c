//! Images of containers: where they come from, and their unpacked layers.

mod archive;
mod digest;
mod error;
mod layer;
mod model;
mod options;
mod reference;
mod registry;
mod store;

#[cfg(test)]
mod tests;

pub use digest::{Digest, InvalidDigest};
pub use error::Error;
pub use model::{ImageConfig, ImageSummary, PreparedImage, PullPolicy, RegistryAuth};
pub use options::{DEFAULT_REGISTRY, ImageOptions};
pub use reference::Reference;
pub use store::Images;
