//! Where the odds of `D_v` are capped, and which of several ways to fit it is kept.
//!
//! Odds that say nothing leave every item its weight; odds that tell everything leave a handful. What is
//! wanted lies between: weighted generated items that look like real ones, at a price that can be paid.
//! With weights `min(o, c)` items are drawn from `min(p_data, c·p_G)`, up to scale: what the data lacks is not
//! drawn, and what the generator hardly makes is drawn no more than c times as often as it is made. That is
//! where calls go, and nothing is right or wrong by it. (Log odds divided by a temperature flatten both
//! ends: on digits without a label the same calls left twice the errors.)
//!
//! The price is the share s of generated items that rejection accepts by the odds alone, at a distance of
//! [`DISTANCE`], since `1/s` times the calls are needed; it rises as the cap falls. So every
//! way is capped to each of a falling list of shares, and witnesses of all ways say
//! how well they still tell real from weighted items, S(s) (see [`super::witness`]). At each share the
//! least S of all ways counts, and the list is followed downwards until one of these holds:
//!
//! - the witnesses no longer tell;
//! - halving the share further, at any smaller share of the list, lowers S by less than [`KNEE`] of what it
//!   is without weights, or by no more than one standard error: the knee;
//! - the least share is reached, or the odds need no cap.
//!
//! At that share the way with the least S is kept, or the first, simplest one within one standard error of it.

use super::odds::OddsUse;
use super::witness::{Likeness, Witnesses, effective_share, outside};
use crate::samplers::reject::calls_per_sample;

/// Distance from the target at which calls are counted: what samplers aim at unless told otherwise.
pub const DISTANCE: f64 = 0.01;

/// Accepted shares that are looked at. The first of them, two and a half times the calls, is always paid:
/// on a generator that makes things which the data lacks and on one that does not, it was worth it.
pub const SHARES: [f64; 6] = [0.4, 0.3, 0.25, 0.2, 0.15, LEAST_SHARE];

/// The least accepted share unless another one is asked for: ten times the calls.
pub const LEAST_SHARE: f64 = 0.1;

/// Share of the whole sum by which halving the accepted share must lower it. At this rate five halvings,
/// 32 times the calls, would undo all that witnesses tell; what comes slower is not worth its calls.
pub const KNEE: f64 = 0.2;

/// Halvings of the range in which a cap is looked for; small enough for ways to be compared at the same share.
const HALVINGS: u32 = 30;

/// Corrected log odds of generated items by one way to fit `D_v`.
#[derive(Debug, Clone)]
pub struct Way {
    /// Of the items that the cap is found on.
    pub fitted: Vec<f64>,
    /// Of the items that witnesses judge, in their order.
    pub judged: Vec<f64>,
}

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Price {
    /// To the knee, but not beyond [`LEAST_SHARE`].
    Knee,
    /// To this accepted share, wherever the knee is.
    Share(f64),
}

/// What decided the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Weighted items look like real ones.
    NoLongerTell,
    /// A higher cap would cost more than it brings.
    Knee,
    /// The least accepted share is reached.
    LeastShare,
    /// The odds are used as they are.
    Whole,
}

impl Stopped {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoLongerTell => "witnesses no longer tell",
            Self::Knee => "knee",
            Self::LeastShare => "least share",
            Self::Whole => "odds used as they are",
        }
    }
}

/// One way as it was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Effective share of generated items by odds without a cap.
    pub effective_share: f64,
    /// Share of generated items outside the data.
    pub outside: f64,
    /// Where its odds are capped at the share chosen; infinite for no cap.
    pub cap: f64,
    /// What witnesses tell of its weights there.
    pub after: Likeness,
}

/// What was chosen, and from what.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// Place of the way.
    pub way: usize,
    /// Accepted share that every way was capped to, where it was below.
    pub share: f64,
    /// Why not less.
    pub stopped: Stopped,
    /// What witnesses tell without weights.
    pub before: Likeness,
    /// Every way at that share, in the order given.
    pub ways: Vec<Judged>,
    /// The shares looked at, and what witnesses tell there of the best way.
    pub path: Vec<[f64; 2]>,
}

impl Chosen {
    /// The way that is kept.
    pub fn kept(&self) -> &Judged {
        &self.ways[self.way]
    }
}

/// The share of its effective items that every joint class keeps: as asked for, or what likeness may cost, at most
/// [`LEAST_SHARE`].
pub fn least_of_a_class(likeness: Option<f64>, asked: Option<f64>) -> f64 {
    asked.unwrap_or_else(|| likeness.unwrap_or(1.0).min(LEAST_SHARE))
}

/// Log weights of capped odds, kept within the clip.
pub fn log_weights(log_odds: &[f64], cap: f64, clip: f64) -> Vec<f64> {
    let odds = OddsUse {
        temperature: 1.0,
        clip,
        cap,
    };
    log_odds.iter().map(|v| odds.log_weight(*v)).collect()
}

/// Share of items that rejection accepts at [`DISTANCE`].
pub fn accepted_share(log_weights: &[f64]) -> f64 {
    calls_per_sample(log_weights, DISTANCE).map_or(0.0, f64::recip)
}

/// The highest cap at which so much of the items is accepted; infinite where they are without one.
fn cap_for(log_odds: &[f64], share: f64, clip: f64) -> f64 {
    let enough = |cap: f64| accepted_share(&log_weights(log_odds, cap, clip)) >= share;
    if enough(f64::INFINITY) {
        return f64::INFINITY;
    }
    // Under the lowest odds all items weigh alike.
    let [mut low, mut high] = [-clip.ln(), clip.ln()];
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if enough(middle.exp()) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low.exp()
}

/// The shares to look at, falling.
fn shares(price: Price) -> Vec<f64> {
    match price {
        Price::Knee => SHARES.to_vec(),
        Price::Share(least) => {
            let above = SHARES.into_iter().filter(|&share| share > least);
            above.chain([least]).collect()
        }
    }
}

/// Chooses among ways, the simplest first, of which there is at least one.
pub fn choose(ways: &[Way], witnesses: &Witnesses, price: Price, clip: f64) -> Chosen {
    let shares = shares(price);
    let unweighted = vec![0.0; ways[0].judged.len()];
    let before = witnesses.judge(&unweighted);
    // By share, then by way.
    let mut table: Vec<Vec<(f64, Likeness)>> = vec![Vec::new(); shares.len()];
    for way in ways {
        let mut last: Option<(f64, Likeness)> = None;
        for (row, share) in table.iter_mut().zip(&shares) {
            let cap = cap_for(&way.fitted, *share, clip);
            // Below its own share a way stays as it is.
            let known = last.take().filter(|(known, _)| *known == cap);
            let at = known.unwrap_or_else(|| {
                let weights = log_weights(&way.judged, cap, clip);
                (cap, witnesses.judge(&weights))
            });
            row.push(at.clone());
            last = Some(at);
        }
    }
    let best: Vec<usize> = table.iter().map(|row| least(row)).collect();
    let envelope: Vec<&Likeness> = table.iter().zip(&best).map(|(r, &b)| &r[b].1).collect();
    let at = follow(&shares, &envelope, before.sum, price);
    let row = &table[at];
    let way = simplest(row, best[at]);
    let (cap, after) = &row[way];
    let stopped = if !after.tells() {
        Stopped::NoLongerTell
    } else if cap.is_infinite() {
        Stopped::Whole
    } else if at + 1 == shares.len() {
        Stopped::LeastShare
    } else {
        Stopped::Knee
    };
    let judged = |(way, (cap, after)): (&Way, &(f64, Likeness))| Judged {
        effective_share: effective_share(&log_weights(&way.judged, f64::INFINITY, clip)),
        outside: outside(&way.judged),
        cap: *cap,
        after: after.clone(),
    };
    Chosen {
        way,
        share: shares[at],
        stopped,
        ways: ways.iter().zip(row).map(judged).collect(),
        path: shares
            .iter()
            .zip(&envelope)
            .map(|(share, likeness)| [*share, likeness.sum])
            .collect(),
        before,
    }
}

/// Place of the least sum.
fn least(row: &[(f64, Likeness)]) -> usize {
    let sums = row.iter().map(|(_, likeness)| likeness.sum).enumerate();
    sums.min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(0, |(at, _)| at)
}

/// The first way within one standard error of the best.
fn simplest(row: &[(f64, Likeness)], best: usize) -> usize {
    let close = |(_, likeness): &(f64, Likeness)| {
        let [above, error] = row[best].1.below(likeness);
        above <= error
    };
    row.iter().position(close).unwrap_or(best)
}

/// How far down the shares to go: to where no smaller one is worth its calls.
fn follow(shares: &[f64], envelope: &[&Likeness], whole: f64, price: Price) -> usize {
    let mut at = 0;
    while envelope[at].tells() {
        let worth = |&next: &usize| {
            let [lower, error] = envelope[next].below(envelope[at]);
            let halvings = (shares[at] / shares[next]).log2();
            let enough = match price {
                Price::Knee => KNEE * whole * halvings,
                Price::Share(_) => 0.0,
            };
            lower >= enough && (lower > error || matches!(price, Price::Share(_)))
        };
        match (at + 1..shares.len()).find(worth) {
            Some(next) => at = next,
            None => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::witness::Witness;
    use super::*;

    /// Items on a line: real ones between 0 and 1, generated ones between 0 and `end`, evenly.
    fn line(count: usize, end: f64) -> Vec<f64> {
        (0..count)
            .map(|at| (at as f64 + 0.5) / count as f64 * end)
            .collect()
    }

    fn logits(items: &[f64], logit: impl Fn(f64) -> f64) -> Vec<f32> {
        items.iter().map(|&x| logit(x) as f32).collect()
    }

    /// One witness and one way by the same logit, on generated items up to `end`.
    fn alone(end: f64, logit: fn(f64) -> f64, price: Price) -> Chosen {
        among(end, &[logit], price)
    }

    fn among(end: f64, all: &[fn(f64) -> f64], price: Price) -> Chosen {
        let (real, made) = (line(2000, 1.0), line(4000, end));
        let rows: Vec<[Vec<f32>; 2]> = all
            .iter()
            .map(|logit| [logits(&real, logit), logits(&made, logit)])
            .collect();
        let witnesses: Vec<Witness<'_>> = rows
            .iter()
            .map(|[real, generated]| Witness { real, generated })
            .collect();
        let items: Vec<u32> = (0..real.len() as u32).collect();
        let witnesses = Witnesses::new(&items, made.len(), &witnesses);
        let ways: Vec<Way> = all
            .iter()
            .map(|logit| {
                let log_odds: Vec<f64> = made.iter().map(|&x| logit(x)).collect();
                Way {
                    fitted: log_odds.clone(),
                    judged: log_odds,
                }
            })
            .collect();
        choose(&ways, &witnesses, price, 1e4)
    }

    /// A quarter of the generated items lies outside, and the odds know which: 4/3 and nearly none.
    fn exact(x: f64) -> f64 {
        if x < 1.0 { (4.0_f64 / 3.0).ln() } else { -9.0 }
    }

    fn nothing(_: f64) -> f64 {
        0.0
    }

    #[test]
    fn odds_that_are_right_are_used_as_far_as_they_are_needed() {
        let found = alone(4.0 / 3.0, exact, Price::Knee);
        assert_eq!((found.way, found.stopped), (0, Stopped::NoLongerTell));
        let kept = found.kept();
        assert_eq!(kept.cap, f64::INFINITY);
        assert!((kept.effective_share - 0.75).abs() < 1e-3, "{kept:?}");
        assert!((kept.outside - 0.25).abs() < 1e-3, "{kept:?}");
        // Real items are all alike; a generated one is below with probability 1/4: AUC 5/8.
        assert!(
            (found.before.sum - 0.125).abs() < 1e-3,
            "{:?}",
            found.before.sum
        );
        assert!(kept.after.sum < 1e-3, "{:?}", kept.after.sum);
    }

    #[test]
    fn odds_that_say_nothing_lose_to_those_that_say_something() {
        let found = among(4.0 / 3.0, &[nothing, exact], Price::Knee);
        assert_eq!(found.way, 1);
        let [said, told] = [&found.ways[0], &found.ways[1]];
        assert_eq!(said.effective_share, 1.0);
        assert!((said.after.sum - found.before.sum).abs() < 1e-12);
        assert!(told.after.sum < 0.1 * said.after.sum);
    }

    /// Two ways that rank alike are one standard error apart at most: the first is kept.
    #[test]
    fn of_ways_that_do_as_well_the_simplest_is_kept() {
        let found = among(4.0 / 3.0, &[exact, exact], Price::Knee);
        assert_eq!(found.way, 0);
        let found = among(4.0 / 3.0, &[nothing, exact, exact], Price::Knee);
        assert_eq!(found.way, 1);
    }

    /// +5 on every real item and −5 on every generated one: all weights are equal and nothing is gained.
    #[test]
    fn odds_that_tell_everything_and_rank_nothing_lower_no_sum() {
        let real = vec![5.0_f32; 500];
        let made = vec![-5.0_f32; 1000];
        let place = line(1000, 4.0 / 3.0);
        let ranks: Vec<f32> = logits(&place, exact);
        let real_ranks = vec![exact(0.5) as f32; 500];
        let witnesses = [
            Witness {
                real: &real,
                generated: &made,
            },
            Witness {
                real: &real_ranks,
                generated: &ranks,
            },
        ];
        let items: Vec<u32> = (0..500).collect();
        let witnesses = Witnesses::new(&items, 1000, &witnesses);
        let way = |log_odds: &[f32]| {
            let log_odds: Vec<f64> = log_odds.iter().map(|v| f64::from(*v)).collect();
            Way {
                fitted: log_odds.clone(),
                judged: log_odds,
            }
        };
        let found = choose(&[way(&made), way(&ranks)], &witnesses, Price::Knee, 1e4);
        assert_eq!(found.way, 1);
        assert_eq!(found.ways[0].effective_share, 1.0);
        assert!((found.ways[0].after.sum - found.before.sum).abs() < 1e-12);
        // The first witness still tells all.
        assert!(found.kept().after.sum >= 0.5);
    }

    #[test]
    fn caps_rise_to_where_nothing_is_told_or_to_what_was_asked() {
        // Real items from 0 to 1, generated ones from 0 to 5; odds fall all the way, by far more than they
        // should inside. A cap of 1 makes them right.
        let steep = |x: f64| 20.0 * (1.0 - x);
        let found = alone(5.0, steep, Price::Knee);
        assert_eq!((found.share, found.stopped), (0.2, Stopped::NoLongerTell));
        assert!((1.0..4.0).contains(&found.kept().cap));
        let asked = alone(5.0, steep, Price::Share(0.3));
        assert_eq!((asked.share, asked.stopped), (0.3, Stopped::LeastShare));
        assert!(asked.kept().cap < found.kept().cap);
        assert!(asked.kept().after.sum > found.kept().after.sum);
        // One in twelve is real: a share that is not paid unless it is asked for.
        let found = alone(12.0, steep, Price::Knee);
        assert_eq!(
            (found.share, found.stopped),
            (LEAST_SHARE, Stopped::LeastShare),
            "{:?}",
            found.path
        );
        let asked = alone(12.0, steep, Price::Share(0.08));
        assert!(asked.share < 0.1 && asked.kept().after.sum < found.kept().after.sum);
        // One in forty: down to a tenth so little is gained that nothing is paid for it.
        let found = alone(40.0, steep, Price::Knee);
        assert_eq!((found.share, found.stopped), (0.4, Stopped::Knee));
        let all = alone(8.0, steep, Price::Share(0.9));
        assert_eq!(all.share, 0.9);
        let weights = log_weights(
            &line(4000, 8.0)
                .iter()
                .map(|&x| steep(x))
                .collect::<Vec<_>>(),
            all.kept().cap,
            1e4,
        );
        let share = accepted_share(&weights);
        assert!((0.9..0.91).contains(&share), "{share}");
    }

    /// A witness that no weight of this way changes keeps the sum up; the way's own one is soon content.
    #[test]
    fn the_knee_is_where_halving_brings_little() {
        let worth = |sums: &[f64]| {
            let likeness: Vec<Likeness> = sums.iter().map(|&sum| sure(sum)).collect();
            let refer: Vec<&Likeness> = likeness.iter().collect();
            follow(&[0.8, 0.4, 0.2, 0.1], &refer, 1.0, Price::Knee)
        };
        // Each halving must bring a fifth of the whole.
        assert_eq!(worth(&[0.8, 0.59, 0.38, 0.17]), 3);
        assert_eq!(worth(&[0.8, 0.59, 0.42, 0.30]), 1);
        assert_eq!(worth(&[0.8, 0.62, 0.60, 0.58]), 0);
        // A slow stretch is crossed where what follows makes up for it.
        assert_eq!(worth(&[0.8, 0.7, 0.39, 0.38]), 2);
        assert_eq!(worth(&[0.8, 0.9, 0.9, 0.9]), 0);
        // Where witnesses no longer tell, nothing more is paid.
        assert_eq!(worth(&[0.8, 0.0, 0.0, 0.0]), 1);
    }

    /// Witnesses that are sure of a sum.
    fn sure(sum: f64) -> Likeness {
        // One real item above a share of the generated weight, without standard errors to speak of.
        let (real, made) = (vec![1.0_f32; 4], [0.0_f32, 2.0]);
        let witness = Witness {
            real: &real,
            generated: &made,
        };
        let one = Witnesses::new(&[0, 1, 2, 3], 2, &[witness, witness]);
        let above: f64 = 0.5 + sum / 2.0;
        let mut found = one.judge(&[above.ln(), (1.0 - above).ln()]);
        found.aucs.iter_mut().for_each(|auc| auc[1] = 0.0);
        found.without_moves()
    }

    #[test]
    fn a_share_is_reached_by_the_highest_cap() {
        // Of odds 4, 1 and 1 a half is accepted, of 2, 1 and 1 (at a cap of 2) two thirds, and a little more of
        // both for the distance: the cap may lie under the largest by 0.01 of the sum, 0.06 and 0.04. Items enough
        // for standard errors to be small.
        let log_odds = [4.0_f64.ln(), 0.0, 0.0].repeat(40_000);
        let shares = [5.94 / 3.94 / 3.0, 3.96 / 1.96 / 3.0];
        assert!((accepted_share(&log_odds) - shares[0]).abs() < 1e-3);
        assert_eq!(cap_for(&log_odds, shares[0] - 1e-3, 100.0), f64::INFINITY);
        let found = cap_for(&log_odds, shares[1] - 1e-3, 100.0);
        assert!((found - 2.0).abs() < 0.02, "{found}");
        // No cap makes more than all items accepted, and a clip of 1 does so at once.
        assert!((cap_for(&log_odds, 1.1, 100.0) - 0.01).abs() < 1e-9);
        assert_eq!(cap_for(&log_odds, 1.0, 1.0), f64::INFINITY);
    }

    #[test]
    fn reasons_are_in_words() {
        let all = [
            Stopped::NoLongerTell,
            Stopped::Knee,
            Stopped::LeastShare,
            Stopped::Whole,
        ];
        assert_eq!(
            all.map(Stopped::words),
            [
                "witnesses no longer tell",
                "knee",
                "least share",
                "odds used as they are"
            ]
        );
    }

    #[test]
    fn what_was_asked_for_decides_the_share_of_a_class() {
        assert_eq!(least_of_a_class(None, None), LEAST_SHARE);
        assert_eq!(least_of_a_class(Some(0.4), None), LEAST_SHARE);
        assert_eq!(least_of_a_class(Some(0.05), None), 0.05);
        assert_eq!(least_of_a_class(Some(0.05), Some(0.65)), 0.65);
    }
}
