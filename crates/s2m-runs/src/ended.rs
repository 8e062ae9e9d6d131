//! What is trained, and how it ended.

/// File name of the trainer.
pub const PROGRAM: &str = "s2m-train";

/// What is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A generator, by one of the objectives.
    Gan,
    /// The three-headed classifier of a generator.
    Classifier,
    /// A fully supervised classifier to judge results by.
    Referee,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gan, Self::Classifier, Self::Referee];

    /// Its name as typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gan => "gan",
            Self::Classifier => "classifier",
            Self::Referee => "referee",
        }
    }
}

/// How a training run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It is finished.
    Done,
    /// It ran, and there is no result; the trainer has said why.
    No,
}

impl Ended {
    /// Exit code of a trainer that could not run at all.
    pub const COULD_NOT_RUN: u8 = 2;

    /// The exit code that says so.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
        }
    }

    /// What an exit code says; none where nothing could run.
    pub fn of_code(code: i32) -> Option<Self> {
        [Self::Done, Self::No]
            .into_iter()
            .find(|ended| i32::from(ended.code()) == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart() {
        assert_eq!(Ended::of_code(0), Some(Ended::Done));
        assert_eq!(Ended::of_code(1), Some(Ended::No));
        assert_eq!(Ended::of_code(i32::from(Ended::COULD_NOT_RUN)), None);
        assert_eq!(Ended::of_code(-1), None);
    }
}
