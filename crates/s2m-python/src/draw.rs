//! Samples as NumPy arrays that lie where the library drew them: nothing is copied, and nothing can be written.

use std::path::PathBuf;

use numpy::ndarray::{ArrayView, IxDyn};
use numpy::{Element, PyArray, PyArrayMethods as _};
use pyo3::prelude::*;
use s2m::output::Existing;
use s2m::{Items, Samples};

use crate::watch::Watch;
use crate::{Error, json};

/// What to do where a folder holds something.
pub(crate) fn existing(replace: bool) -> Existing {
    if replace {
        Existing::Replace
    } else {
        Existing::Keep
    }
}

/// Samples of one draw, or one batch of a stream, which has no report.
#[pyclass(frozen, module = "s2m._s2m")]
pub(crate) struct Draw {
    pub(crate) model: s2m::Model,
    pub(crate) content: Content,
}

/// What was drawn.
pub(crate) enum Content {
    /// A whole draw.
    Draw(Box<s2m::Draw>),
    /// A batch of a stream.
    Batch(Samples),
}

impl Draw {
    fn samples(&self) -> &Samples {
        match &self.content {
            Content::Draw(draw) => &draw.samples,
            Content::Batch(samples) => samples,
        }
    }
}

/// An array over numbers of a draw, which it keeps alive.
fn array<'py, T: Element>(
    owner: &Bound<'py, Draw>,
    shape: &[usize],
    numbers: &[T],
) -> PyResult<Bound<'py, PyAny>> {
    let view = ArrayView::from_shape(IxDyn(shape), numbers).map_err(crate::told)?;
    // SAFETY: the numbers belong to `owner`, which is frozen and becomes the base of the array: they neither move nor
    // end before it does.
    let array = unsafe { PyArray::borrow_from_array(&view, owner.clone().into_any()) };
    array.readwrite().make_nonwriteable();
    Ok(array.into_any())
}

#[pymethods]
impl Draw {
    fn __len__(&self) -> usize {
        self.samples().len()
    }

    /// `[n, height, width, channels]` levels, or `[n, …]` coordinates.
    #[getter]
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let samples = &slf.get().samples();
        let sides = samples.shape.iter().copied();
        let shape: Vec<usize> = std::iter::once(samples.len()).chain(sides).collect();
        match &samples.items {
            Items::Pictures8(levels) => array(slf, &shape, levels),
            Items::Pictures16(levels) => array(slf, &shape, levels),
            Items::Points(points) => array(slf, &shape, points),
        }
    }

    /// `[n, labels]`.
    #[getter]
    fn posteriors<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let samples = &slf.get().samples();
        let shape = [samples.len(), samples.labels.len()];
        array(slf, &shape, &samples.posteriors)
    }

    #[getter]
    fn log_weights<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let numbers = &slf.get().samples().log_weights;
        array(slf, &[numbers.len()], numbers)
    }

    #[getter]
    fn proposals<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let numbers = &slf.get().samples().proposals;
        array(slf, &[numbers.len()], numbers)
    }

    /// Empty without adaptation.
    #[getter]
    fn stages<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let numbers = &slf.get().samples().stages;
        array(slf, &[numbers.len()], numbers)
    }

    /// Empty for a generator without classes.
    #[getter]
    fn classes<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let numbers = &slf.get().samples().classes;
        array(slf, &[numbers.len()], numbers)
    }

    /// What the query says about each label.
    #[getter]
    fn held(&self) -> Vec<Option<bool>> {
        self.samples().labels.clone()
    }

    /// `report.json`; none for a batch of a stream.
    #[getter]
    fn report(&self) -> PyResult<Option<String>> {
        match &self.content {
            Content::Draw(draw) => json(&draw.report).map(Some),
            Content::Batch(_) => Ok(None),
        }
    }

    /// Writes the folder that `s2m sample` writes.
    fn save(
        &self,
        py: Python<'_>,
        out: PathBuf,
        replace: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let Content::Draw(draw) = &self.content else {
            return Err(Error::new_err(
                "a batch of a stream has no report, and is not saved\nhint: `sample` draws what can be saved",
            ));
        };
        let watch = Watch::new(progress);
        let saved = py.detach(|| draw.save_with(&self.model, &out, existing(replace), &watch));
        watch.result(saved)
    }
}
