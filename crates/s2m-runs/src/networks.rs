//! Which networks play a GAN's game, and their sizes; `network` in a run file of `gan`.
//!
//! ```toml
//! network = { latent = 100, hidden = [256, 256] }
//! network = { kind = "biggan", latent = 80, channels = 64, critic-channels = 96 }
//! network = { kind = "unet", channels = 64, steps = 8 }
//! ```

use serde::{Deserialize, Serialize};

use crate::error::{Error, ensure};

/// The networks of a GAN.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, try_from = "toml::Table")]
pub enum NetworkSettings {
    /// Fully connected layers; a run file names no kind.
    Mlp(MlpSettings),
    /// BigGAN's.
    BigGan(BigGanSettings),
    /// A U-Net.
    UNet(UNetSettings),
}

/// Sizes of fully connected networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MlpSettings {
    /// Numbers in the latent.
    pub latent: i64,
    /// Hidden layers of generator and critic.
    pub hidden: Vec<i64>,
}

/// Sizes of BigGAN's networks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BigGanSettings {
    kind: BigGan,
    /// Numbers in the latent, in equal parts for the first layer and every block.
    pub latent: i64,
    /// The unit of the generator's widths.
    pub channels: i64,
    /// The unit of the critic's widths; the generator's where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critic_channels: Option<i64>,
    /// Numbers in the embedding of a class that all blocks share.
    #[serde(default = "shared")]
    pub shared: i64,
    /// Whether pixels attend to each other at half the picture's side.
    #[serde(default)]
    pub attention: bool,
}

/// The word for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum BigGan {
    #[serde(rename = "biggan")]
    BigGan,
}

/// Sizes of a U-Net.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct UNetSettings {
    kind: UNet,
    /// Width at the image's own side; twice as much at all others.
    pub channels: i64,
    /// Steps from noise to an image.
    #[serde(default = "steps")]
    pub steps: i64,
}

/// The word for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum UNet {
    #[serde(rename = "unet")]
    UNet,
}

fn steps() -> i64 {
    8
}

fn shared() -> i64 {
    128
}

impl TryFrom<toml::Table> for NetworkSettings {
    type Error = toml::de::Error;

    fn try_from(table: toml::Table) -> Result<Self, Self::Error> {
        match table.get("kind").map(toml::Value::as_str) {
            Some(Some("unet")) => table.try_into().map(Self::UNet),
            Some(_) => table.try_into().map(Self::BigGan),
            None => table.try_into().map(Self::Mlp),
        }
    }
}

impl NetworkSettings {
    /// The sizes of fully connected networks, for objectives that are played by them.
    pub fn mlp(&self) -> Result<&MlpSettings, Error> {
        match self {
            Self::Mlp(settings) => Ok(settings),
            Self::BigGan(_) => Err(Error::Setting(
                "`network.kind` is `biggan`, which this objective does not train\nhint: objective = { kind = \"hinge\", critic-steps = 4 }".to_owned(),
            )),
            Self::UNet(_) => Err(Error::Setting(
                "`network.kind` is `unet`, which this objective does not train\nhint: objective = { kind = \"flow\" }".to_owned(),
            )),
        }
    }

    /// The sizes of a BigGAN, for objectives that are played by it.
    pub fn biggan(&self) -> Result<&BigGanSettings, Error> {
        match self {
            Self::BigGan(settings) => Ok(settings),
            Self::Mlp(_) | Self::UNet(_) => Err(Error::Setting(
                "hinge objectives train BigGAN, and `network` states other layers\nhint: network = { kind = \"biggan\", latent = 80, channels = 64 }".to_owned(),
            )),
        }
    }

    /// The sizes of a U-Net, for the objective that trains it.
    pub fn unet(&self) -> Result<&UNetSettings, Error> {
        match self {
            Self::UNet(settings) => Ok(settings),
            Self::Mlp(_) | Self::BigGan(_) => Err(Error::Setting(
                "`objective.kind` is `flow`, which trains a U-Net, and `network` states other layers\nhint: network = { kind = \"unet\", channels = 64 }".to_owned(),
            )),
        }
    }

    /// Whether the networks are made of convolutions.
    pub fn convolves(&self) -> bool {
        !matches!(self, Self::Mlp(_))
    }

    /// Refuses sizes that no network has.
    pub fn check(&self) -> Result<(), Error> {
        let within = |name: &str, value: i64, most: i64| {
            ensure!(
                (1..=most).contains(&value),
                "`network.{name}` is {value}; it must be from 1 to {most}"
            );
            Ok(())
        };
        match self {
            Self::Mlp(MlpSettings { latent, hidden }) => {
                within("latent", *latent, 1 << 20)?;
                ensure!(
                    !hidden.is_empty() && hidden.iter().all(|side| (1..=1 << 16).contains(side)),
                    "`network.hidden` must list layers of 1 to 65536 units"
                );
            }
            Self::BigGan(settings) => {
                within("latent", settings.latent, 1 << 20)?;
                within("channels", settings.channels, 1 << 12)?;
                within(
                    "critic-channels",
                    settings.critic_channels.unwrap_or(settings.channels),
                    1 << 12,
                )?;
                within("shared", settings.shared, 1 << 16)?;
            }
            Self::UNet(settings) => {
                within("channels", settings.channels, 1 << 12)?;
                ensure!(
                    settings.channels % 16 == 0,
                    "`network.channels` is {}; a U-Net takes a multiple of 16, since its norms go by eight groups of at least two channels",
                    settings.channels
                );
                within("steps", settings.steps, 1000)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    struct File {
        network: NetworkSettings,
    }

    fn read(network: &str) -> Result<NetworkSettings, String> {
        let file = toml::from_str::<File>(&format!("network = {{ {network} }}"));
        file.map(|file| file.network)
            .map_err(|e| e.message().to_owned())
    }

    #[test]
    fn a_run_file_says_which_networks_and_comes_back_as_it_was() {
        for text in [
            "[network]\nlatent = 3\nhidden = [4, 5]\n",
            "[network]\nkind = \"unet\"\nchannels = 64\nsteps = 8\n",
            "[network]\nkind = \"biggan\"\nlatent = 80\nchannels = 64\ncritic-channels = 96\nshared = 128\nattention = false\n",
        ] {
            let file: File = toml::from_str(text).unwrap();
            assert_eq!(toml::to_string(&file).unwrap(), text);
        }
        let short = read("kind = 'biggan', latent = 80, channels = 8").unwrap();
        let settings = short.biggan().unwrap();
        assert_eq!((settings.shared, settings.attention), (128, false));
        assert!(short.mlp().unwrap_err().to_string().contains("`biggan`"));
        assert!(read("latent = 3, hidden = [4]").unwrap().biggan().is_err());
    }

    #[test]
    fn a_unet_is_trained_by_flows_alone() {
        let short = read("kind = 'unet', channels = 16").unwrap();
        assert_eq!(short.unet().unwrap().steps, 8);
        assert!(short.mlp().unwrap_err().to_string().contains("`unet`"));
        assert!(short.biggan().is_err());
        let other = read("latent = 3, hidden = [4]").unwrap();
        assert!(other.unet().unwrap_err().to_string().contains("`flow`"));
        let refused = |text: &str| read(text).unwrap().check().unwrap_err().to_string();
        assert_eq!(
            refused("kind = 'unet', channels = 12"),
            "`network.channels` is 12; a U-Net takes a multiple of 16, since its norms go by eight groups of at least two channels"
        );
        assert_eq!(
            refused("kind = 'unet', channels = 16, steps = 0"),
            "`network.steps` is 0; it must be from 1 to 1000"
        );
    }

    #[test]
    fn unknown_kinds_and_keys_are_named() {
        assert!(
            read("kind = 'stylegan', latent = 80, channels = 8")
                .unwrap_err()
                .contains("stylegan")
        );
        assert!(
            read("latent = 3, hidden = [4], width = 2")
                .unwrap_err()
                .contains("`width`")
        );
        let narrow = read("kind = 'biggan', latent = 80, channels = 0").unwrap();
        assert_eq!(
            narrow.check().unwrap_err().to_string(),
            "`network.channels` is 0; it must be from 1 to 4096"
        );
    }
}
