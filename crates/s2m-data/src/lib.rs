//! Data sets: files on disk, or toy densities, turned into one [`Dataset`].
//!
//! A [`recipe::DataRecipe`] is what a run file says about its data: a toy, one of the known sets
//! ([`idx`], [`six_labels`], [`celeba`], [`cifar10`], [`cole`]) or data of one's own ([`folders`], [`table`],
//! [`arrays`]). Loading it gives a training and
//! a test part, the split into training and validation items, and the single positive labels that
//! training may see. The full label sets make that view and judge results; nothing else reads them. As
//! an [`audit`], it gives all items with the truth of every label.
//!
//! Results come back from disk as pictures ([`picture_folder`], [`picture_file`], [`resize`]) or as
//! arrays of NumPy ([`npy`]).
//!
//! ```
//! use s2m_data::{illustration, split::split, view::{View, observed}};
//!
//! let data = illustration::draw(1000, 7);
//! let parts = split(data.len(), 0.1, 7)?;
//! let shown = View::PerClass.positives(&data, &parts.train, 7)?;
//! assert_eq!((parts.train.len(), parts.validation.len()), (900, 100));
//! assert!((observed(&shown, data.labels.len())[0] - 0.5).abs() < 0.1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]

pub mod array_items;
pub mod arrays;
mod asked;
pub mod audit;
pub mod celeba;
pub mod channels;
pub mod cifar10;
pub mod classes;
pub mod cole;
mod dataset;
mod error;
pub mod file_name;
pub mod folders;
pub mod framing;
pub mod gaussians;
pub mod idx;
pub mod illustration;
mod jpeg;
pub mod labelled;
#[cfg(test)]
mod made;
pub mod matrix;
mod message;
pub mod npy;
mod picture_at;
pub mod picture_file;
pub mod picture_folder;
pub mod picture_set;
mod plain_file;
pub mod recipe;
pub mod resize;
pub mod rows;
pub mod six_labels;
pub mod split;
mod streams;
pub mod table;
pub mod tar;
pub mod text_file;
pub mod view;
mod wrong_labels;
mod zip;

pub use dataset::{Dataset, Items, Part, Values};
pub use error::{Error, Kind};
