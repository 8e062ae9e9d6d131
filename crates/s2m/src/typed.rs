//! Settings as people type them, by the names of the program's options.
//!
//! The program fills them from its command line, Python from JSON. What is left out gets its default here, and what does
//! not go together is refused here, so that both say the same in the same words.

use std::num::NonZeroUsize;

use s2m_core::setting::Setting;
use s2m_model::manifest::PosteriorName;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::adapt::{
    AdaptChoice, COMPONENTS, GAIN, PILOTS, PRIOR_SHARE, Pilot, STEPS_ONCE, STEPS_REPEAT,
};
use crate::error::Error;
use crate::samplers::{self, SamplerChoice, SamplerOptions};
use crate::settings::{CalibrationChoice, ClassChoice, DensityChoice, Overrides, SampleSettings};

/// A way to adapt by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdaptName {
    /// Not at all.
    #[default]
    None,
    /// The paper's Algorithm 2.
    Once,
    /// The paper's Algorithm 3.
    Repeat,
    /// Stages that use every proposal scored so far.
    Adaptive,
}

impl AdaptName {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Once => "once",
            Self::Repeat => "repeat",
            Self::Adaptive => "adaptive",
        }
    }
}

/// Settings as typed; the fields have the names of the options, and none is what was left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the program's help says what each option does")]
pub struct Typed {
    pub seed: Option<u64>,
    pub sampler: Option<String>,
    pub tv: Option<f64>,
    pub steps: Option<NonZeroUsize>,
    pub unique: bool,
    pub moves: Option<NonZeroUsize>,
    pub max_calls: Option<NonZeroUsize>,
    pub classes: Option<ClassChoice>,
    pub latents: bool,
    pub density: Option<DensityChoice>,
    pub posterior: Option<PosteriorName>,
    pub calibration: Option<CalibrationChoice>,
    pub class_temperature: Option<f64>,
    pub real_temperature: Option<f64>,
    pub odds_cap: Option<f64>,
    pub margin: Option<f64>,
    pub floor: Option<f64>,
    pub purity: Option<f64>,
    pub adapt: AdaptName,
    pub prior_share: Option<f64>,
    pub gain: Option<f64>,
    pub pilots: Option<NonZeroUsize>,
    pub pilot_steps: Option<NonZeroUsize>,
    pub components: Option<NonZeroUsize>,
    pub order: Option<String>,
}

impl Typed {
    /// Settings out of an object in JSON; a value that cannot be is named, with what it must be.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let given: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| Error::Setting(format!("the settings are no JSON object: {error}")))?;
        for (name, value) in &given {
            let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
            let unknown = |sampler: &str| samplers::NAMES.iter().all(|(own, _)| *own != sampler);
            if serde_json::from_value::<Self>(alone).is_err()
                || name == "sampler" && value.as_str().is_some_and(unknown)
            {
                return Err(Error::Setting(match must_be(name) {
                    Some((setting, wanted)) => {
                        format!("{setting} is {value}; it must be {wanted}")
                    }
                    None => format!("there is no setting `{name}`"),
                }));
            }
        }
        serde_json::from_value(Value::Object(given))
            .map_err(|error| Error::Setting(error.to_string()))
    }

    /// Names of all settings.
    pub fn names() -> Vec<String> {
        match serde_json::to_value(Self::default()) {
            Ok(Value::Object(fields)) => fields.into_iter().map(|(name, _)| name).collect(),
            _ => unreachable!("a structure becomes an object"),
        }
    }

    /// How to draw; what does not go together is refused.
    pub fn settings(&self) -> Result<SampleSettings, Error> {
        if self.floor.is_some() && self.purity.is_some() {
            let [floor, purity] = ["floor", "purity"].map(Setting);
            return refuse(format!(
                "{floor} does not go with {purity}, which picks the floor"
            ));
        }
        let own = SampleSettings::default();
        Ok(SampleSettings {
            seed: self.seed,
            sampler: self.sampler()?,
            max_calls: self.max_calls.map(NonZeroUsize::get),
            density: self.density.unwrap_or(own.density),
            posterior: self.posterior,
            calibration: self.calibration.unwrap_or(own.calibration),
            overrides: Overrides {
                class_temperature: self.class_temperature,
                real_temperature: self.real_temperature,
                odds_cap: self.odds_cap,
                margin: self.margin,
                floor: self.floor,
                purity: self.purity,
            },
            classes: self.classes.unwrap_or(own.classes),
            moves: self.moves,
            latents: self.latents,
            adapt: self.adapt()?,
        })
    }

    fn sampler(&self) -> Result<SamplerChoice, Error> {
        let usual = samplers::NAMES[0].0;
        SamplerChoice::named(
            self.sampler.as_deref().unwrap_or(usual),
            SamplerOptions {
                tv: self.tv,
                steps: self.steps,
                unique: self.unique,
            },
        )
    }

    fn adapt(&self) -> Result<AdaptChoice, Error> {
        use AdaptName::{Adaptive, None, Once, Repeat};
        let name = self.adapt;
        let by_pilots = matches!(name, Once | Repeat);
        let given = [
            ("prior_share", self.prior_share.is_some(), name != None),
            ("gain", self.gain.is_some(), name == Adaptive),
            ("pilots", self.pilots.is_some(), by_pilots),
            ("pilot_steps", self.pilot_steps.is_some(), by_pilots),
            ("components", self.components.is_some(), by_pilots),
            ("order", self.order.is_some(), name == Repeat),
        ];
        if let Some((option, ..)) = given.iter().find(|(_, given, fits)| *given && !fits) {
            return refuse(format!(
                "{} does not go with {}",
                Setting(option),
                Setting("adapt").to(name.name())
            ));
        }
        let prior_share = self.prior_share.unwrap_or(PRIOR_SHARE);
        let pilot = |steps| Pilot {
            pilots: self.pilots.unwrap_or(PILOTS),
            steps: self.pilot_steps.unwrap_or(steps),
            components: self.components.unwrap_or(COMPONENTS),
        };
        Ok(match name {
            None => AdaptChoice::None,
            Once => AdaptChoice::Once {
                pilot: pilot(STEPS_ONCE),
                prior_share,
            },
            Repeat => {
                let order = self.order.as_ref();
                AdaptChoice::Repeat {
                    pilot: pilot(STEPS_REPEAT),
                    order: order.map(|text| text.split(',').map(str::to_owned).collect()),
                    prior_share,
                }
            }
            Adaptive => AdaptChoice::Adaptive {
                gain: self.gain.unwrap_or(GAIN),
                prior_share,
            },
        })
    }
}

fn refuse<T>(text: String) -> Result<T, Error> {
    Err(Error::Setting(text))
}

const COUNT: &str = "a whole number, at least 1";
const NUMBER: &str = "a number";

/// What every setting must be.
const WANTED: [(&str, &str); 25] = [
    ("seed", "a whole number, at least 0"),
    ("sampler", samplers::NAMED),
    ("adapt", "`none`, `once`, `repeat` or `adaptive`"),
    ("density", "`corrected` or `paper`"),
    ("posterior", "`joint` or `levels`"),
    ("calibration", "`bundle`, `paper` or `none`"),
    ("classes", "`best` or `first`"),
    ("steps", COUNT),
    ("moves", COUNT),
    ("max_calls", COUNT),
    ("pilots", COUNT),
    ("pilot_steps", COUNT),
    ("components", COUNT),
    ("unique", "true or false"),
    ("latents", "true or false"),
    ("order", "a text like \"A, -B\""),
    ("tv", NUMBER),
    ("class_temperature", NUMBER),
    ("real_temperature", NUMBER),
    ("odds_cap", NUMBER),
    ("margin", NUMBER),
    ("floor", NUMBER),
    ("purity", NUMBER),
    ("prior_share", NUMBER),
    ("gain", NUMBER),
];

/// A setting and what it must be; none for a name that nothing has.
fn must_be(name: &str) -> Option<(Setting, &'static str)> {
    let found = WANTED.iter().find(|(own, _)| *own == name);
    found.map(|&(name, wanted)| (Setting(name), wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let settings = Typed::from_json(text).and_then(|typed| typed.settings());
        settings.expect_err(text).to_string()
    }

    #[test]
    fn what_is_left_out_is_the_default() {
        assert_eq!(
            Typed::default().settings().unwrap(),
            SampleSettings::default()
        );
        assert_eq!(Typed::from_json("{}").unwrap(), Typed::default());
        let adapted = |name| {
            let text = format!("{{\"adapt\": \"{name}\"}}");
            Typed::from_json(&text).unwrap().settings().unwrap().adapt
        };
        assert_eq!(adapted("once"), AdaptChoice::once());
        assert_eq!(adapted("repeat"), AdaptChoice::repeat());
        assert_eq!(adapted("adaptive"), AdaptChoice::adaptive());
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (text, words) in [
            (r#"{"steps": 3}"#, "`steps` is for `sampler = mh`"),
            (
                r#"{"unique": true}"#,
                "`unique` is for `sampler = resample`",
            ),
            (
                r#"{"sampler": "resample", "tv": 0.1}"#,
                "`tv` is for `sampler = reject`, and for `sampler = mh` without `steps`",
            ),
            (
                r#"{"sampler": "mh", "steps": 5, "tv": 0.1}"#,
                "`tv` is for `sampler = reject`, and for `sampler = mh` without `steps`",
            ),
            (
                r#"{"floor": 0.5, "purity": 0.9}"#,
                "`floor` does not go with `purity`, which picks the floor",
            ),
            (r#"{"gain": 0.2}"#, "`gain` does not go with `adapt = none`"),
            (
                r#"{"adapt": "adaptive", "order": "A"}"#,
                "`order` does not go with `adapt = adaptive`",
            ),
            (
                r#"{"adapt": "adaptive", "pilots": 10}"#,
                "`pilots` does not go with `adapt = adaptive`",
            ),
        ] {
            assert_eq!(said(text), words);
        }
    }

    #[test]
    fn a_value_that_cannot_be_is_named() {
        for (text, words) in [
            (
                r#"{"seed": -1}"#,
                "`seed` is -1; it must be a whole number, at least 0",
            ),
            (
                r#"{"sampler": "gibbs"}"#,
                "`sampler` is \"gibbs\"; it must be `reject`, `mh`, `resample` or `smc`",
            ),
            (
                r#"{"adapt": "twice"}"#,
                "`adapt` is \"twice\"; it must be `none`, `once`, `repeat` or `adaptive`",
            ),
            (
                r#"{"pilot_steps": 0}"#,
                "`pilot_steps` is 0; it must be a whole number, at least 1",
            ),
            (r#"{"temperature": 2}"#, "there is no setting `temperature`"),
        ] {
            assert_eq!(said(text), words);
        }
        assert!(said("[]").starts_with("the settings are no JSON object"));
    }

    #[test]
    fn every_setting_says_what_it_must_be() {
        for name in Typed::names() {
            assert!(must_be(&name).is_some(), "{name}");
        }
    }
}
