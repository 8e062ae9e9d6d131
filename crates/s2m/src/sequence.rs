//! A query's own sequence of proposals: all of the pool, or those of some classes.
//!
//! Where classes take turns in the pool and the query needs several of them, the class of each
//! position is drawn at random and the next unused proposal of that class is taken: a chain or a
//! short draw then sees independent proposals from the mixture, not classes in a fixed turn.

use std::ops::Range;

use s2m_core::labels::LabelSet;
use s2m_core::proposals::{Proposals, Purpose};

/// Positions between two marks.
const MARKED: usize = 1 << 12;

/// Positions of a query, and the numbers of the proposals there.
#[derive(Debug, Clone)]
pub struct Sequence {
    period: u64,
    used: Vec<u64>,
    /// Where several classes are drawn from: proposals taken of each before every so many positions that
    /// were reached. The numbers between two marks are found again from the first.
    marks: Vec<Vec<u64>>,
    /// What the classes are drawn with, once a position was reached.
    proposals: Option<Proposals>,
}

impl Sequence {
    /// Every proposal.
    pub fn all() -> Self {
        Self::of_classes(1, LabelSet::first(1))
    }

    /// The proposals whose class, `k mod classes`, is one of `used`.
    pub fn of_classes(classes: usize, used: LabelSet) -> Self {
        let used: Vec<u64> = used.iter().map(|c| c as u64).collect();
        Self {
            period: classes as u64,
            marks: vec![vec![0; used.len()]],
            used,
            proposals: None,
        }
    }

    /// Proposals of the pool between two that stand side by side.
    pub(crate) fn period(&self) -> usize {
        self.period as usize
    }

    /// Settles the first positions and gives how many proposals of the pool they need.
    pub fn reach(&mut self, positions: usize, proposals: &Proposals) -> usize {
        if let [class] = self.used[..] {
            let last = positions.checked_sub(1);
            return last.map_or(0, |last| (last as u64 * self.period + class) as usize + 1);
        }
        self.proposals = Some(*proposals);
        while self.marks.len() * MARKED <= positions {
            let next = self.taken(self.marks.len() * MARKED, |_, _| ());
            self.marks.push(next);
        }
        let taken = self.taken(positions, |_, _| ());
        let last = |(taken, class): (&u64, &u64)| Some((taken.checked_sub(1)?, *class));
        let last = taken.iter().zip(&self.used).filter_map(last);
        last.map(|(turn, class)| (turn * self.period + class) as usize + 1)
            .max()
            .unwrap_or(0)
    }

    /// The numbers of the proposals at positions that were reached.
    pub fn numbers(&self, positions: Range<usize>) -> Vec<u64> {
        if let [class] = self.used[..] {
            let number = |position: usize| position as u64 * self.period + class;
            return positions.map(number).collect();
        }
        let mut numbers = Vec::with_capacity(positions.len());
        let mut first = positions.start;
        while first < positions.end {
            let end = positions.end.min((first / MARKED + 1) * MARKED);
            self.taken_between(first / MARKED, end, |position, number| {
                if position >= first {
                    numbers.push(number);
                }
            });
            first = end;
        }
        numbers
    }

    /// The number of the proposal at a position that was reached.
    pub fn number(&self, position: usize) -> u64 {
        self.numbers(position..position + 1)[0]
    }

    /// Proposals taken of each class before a position, which lies behind the last mark by one stretch at most.
    fn taken(&self, position: usize, see: impl FnMut(usize, u64)) -> Vec<u64> {
        let mark = (position / MARKED).min(self.marks.len() - 1);
        self.taken_between(mark, position, see)
    }

    /// Goes from a mark to a position, shows position and number on the way, and says what was taken.
    fn taken_between(&self, mark: usize, end: usize, mut see: impl FnMut(usize, u64)) -> Vec<u64> {
        let mut taken = self.marks[mark].clone();
        let first = mark * MARKED;
        let mut uniforms = vec![0.0; end - first];
        if let Some(proposals) = self.proposals {
            proposals.fill_uniform(Purpose::Class, first as u64, &mut uniforms);
        }
        for (position, u) in (first..).zip(uniforms) {
            let which = (u * self.used.len() as f64) as usize;
            see(position, taken[which] * self.period + self.used[which]);
            taken[which] += 1;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_of_one_class_skips_the_others() {
        let proposals = Proposals::new(1);
        let mut sequence = Sequence::of_classes(3, [2].into_iter().collect());
        assert_eq!(
            (sequence.reach(0, &proposals), sequence.reach(4, &proposals)),
            (0, 12)
        );
        assert_eq!(sequence.numbers(0..4), [2, 5, 8, 11]);
        assert_eq!(Sequence::all().number(17), 17);
    }

    /// Classes come at random, each proposal once, and asking in pieces changes nothing.
    #[test]
    fn a_sequence_of_several_classes_mixes_them() {
        let proposals = Proposals::new(1);
        let used: LabelSet = [0, 2].into_iter().collect();
        let mut whole = Sequence::of_classes(3, used);
        let rows = whole.reach(1000, &proposals);
        let mut pieces = Sequence::of_classes(3, used);
        (1..=1000).for_each(|positions| {
            pieces.reach(positions, &proposals);
        });
        let numbers: Vec<u64> = (0..1000).map(|p| whole.number(p)).collect();
        assert_eq!(numbers, pieces.numbers(0..1000));
        assert!(numbers.iter().all(|k| k % 3 != 1 && (*k as usize) < rows));
        let mut distinct = numbers.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 1000);
        // A class follows itself about half of the time: five standard errors.
        let repeats = numbers
            .windows(2)
            .filter(|pair| pair[0] % 3 == pair[1] % 3)
            .count() as f64;
        assert!((repeats - 499.5).abs() < 5.0 * 16.0, "{repeats}");
    }

    /// Over many marks the numbers are those of a plain list.
    #[test]
    fn numbers_found_again_from_marks_are_those_of_a_list() {
        let proposals = Proposals::new(4);
        let used = [1, 2, 4];
        let mut sequence = Sequence::of_classes(5, used.into_iter().collect());
        let count = 3 * MARKED + 17;
        let (mut list, mut taken) = (Vec::new(), [0; 3]);
        for position in 0..count as u64 {
            let which = (proposals.uniform(Purpose::Class, position) * 3.0) as usize;
            list.push(taken[which] * 5 + used[which] as u64);
            taken[which] += 1;
        }
        for positions in [1, MARKED - 1, MARKED, MARKED + 1, 2 * MARKED, count] {
            let needed = list[..positions]
                .iter()
                .max()
                .map_or(0, |last| *last as usize + 1);
            assert_eq!(sequence.reach(positions, &proposals), needed, "{positions}");
        }
        for (first, last) in [
            (0, count),
            (5, 5),
            (MARKED - 1, MARKED + 1),
            (MARKED, count),
        ] {
            assert_eq!(sequence.numbers(first..last), list[first..last]);
        }
        // Fewer positions than before need fewer proposals.
        let needed = list[..10].iter().max().map_or(0, |last| *last as usize + 1);
        assert_eq!(sequence.reach(10, &proposals), needed);
    }
}
