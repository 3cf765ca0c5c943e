//! The documents that workloads and claims come from, with their titles.
//!
//! Role: records store the short id of a document; table and report show its title.

/// A document that workloads and claims come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Id in records: `S3`.
    pub id: &'static str,
    /// Short title, for headings.
    pub title: &'static str,
    /// Kind of document, its year if known, and the parts that are used.
    pub about: &'static str,
}

/// All documents, in the order of their ids.
pub const ALL: [Source; 4] = [
    Source {
        id: "S0",
        title: "blog notes on numerics",
        about: "blog notes of a numerics researcher, 2023; used: “Normality of Inverse Gaussian”, \
                “Approximate Nash Equilibrium by Regret Matching”, “Tracing GPU Resources” and \
                “Setting up CUDA tools properly”",
    },
    Source {
        id: "S1",
        title: "notes on low-bit nets",
        about: "class-project notes on learned low-bit neural networks, 2019",
    },
    Source {
        id: "S2",
        title: "lecture on Python performance",
        about: "lecture on the performance of Python and PyTorch, from the course “Introduction to \
                High Performance Machine Learning” (ECE-GY 9143)",
    },
    Source {
        id: "S3",
        title: "fast.ai notebook “matmul”",
        about: "course notebook on MNIST and matrix multiplication, from Python loops to a GPU kernel",
    },
];

/// Returns the title of the document with this id, or the id itself if it is unknown.
#[must_use]
pub fn title(id: &str) -> &str {
    let source = ALL.iter().find(|source| source.id == id);
    source.map_or(id, |source| source.title)
}

/// Returns the description of the document with this id; `None` if the id is unknown.
#[must_use]
pub fn about(id: &str) -> Option<&'static str> {
    let source = ALL.iter().find(|source| source.id == id);
    source.map(|source| source.about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_titles_and_unknown_ids_are_shown_as_they_are() {
        assert_eq!(title("S3"), "fast.ai notebook “matmul”");
        assert_eq!(title("S9"), "S9");
    }
}
