//! Templates of harmonic hues: sectors of the hue circle (Matsuda, 1995; Cohen-Or et al., 2006), in degrees.

/// Widths of a narrow, a wide, and a half-circle sector.
const NARROW: f32 = 18.0;
const WIDE: f32 = 93.6;
const HALF: f32 = 180.0;

/// Sector of a template: its center relative to the template's orientation, and its full width.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sector {
    pub(crate) center: f32,
    pub(crate) width: f32,
}

/// Templates by the choices of the catalog.
pub(crate) const TEMPLATES: &[(&str, &[Sector])] = &[
    ("vertical_bar", &[Sector { center: 0.0, width: NARROW }]),
    ("v_shape", &[Sector { center: 0.0, width: WIDE }]),
    ("right_angle", &[Sector { center: 0.0, width: NARROW }, Sector { center: 90.0, width: WIDE }]),
    ("left_angle", &[Sector { center: 0.0, width: NARROW }, Sector { center: -90.0, width: WIDE }]),
    ("double_bar", &[Sector { center: 0.0, width: NARROW }, Sector { center: 180.0, width: NARROW }]),
    ("t_shape", &[Sector { center: 0.0, width: HALF }]),
    ("y_branch", &[Sector { center: 0.0, width: WIDE }, Sector { center: 180.0, width: NARROW }]),
    ("x_cross", &[Sector { center: 0.0, width: WIDE }, Sector { center: 180.0, width: WIDE }]),
];

/// Weight of each hue, per degree.
pub(crate) type Histogram = [f32; 360];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Turned {
    pub(crate) sectors: &'static [Sector],
    pub(crate) turn: f32,
}

impl Turned {
    /// Returns the orientation with the least total change of hues.
    pub(crate) fn fitting(sectors: &'static [Sector], hues: &Histogram) -> Self {
        let turned = |turn: u16| Self { sectors, turn: f32::from(turn) };
        let cost = |candidate: Self| -> f32 {
            let way = |(hue, weight): (usize, &f32)| weight * candidate.distance(hue as f32);
            hues.iter().enumerate().map(way).sum()
        };
        let costs = (0..360).map(|turn| (cost(turned(turn)), turned(turn)));
        costs.min_by(|(a, _), (b, _)| a.total_cmp(b)).map_or_else(|| turned(0), |(_, best)| best)
    }

    /// Returns the distance of a hue from the nearest sector; 0 inside.
    fn distance(&self, hue: f32) -> f32 {
        let outside = |sector: &Sector| (self.offset(hue, *sector).abs() - sector.width / 2.0).max(0.0);
        self.sectors.iter().map(outside).fold(f32::INFINITY, f32::min)
    }

    /// Returns the offset of a hue from the center of a sector, from -180 to 180.
    fn offset(&self, hue: f32, sector: Sector) -> f32 {
        (hue - self.turn - sector.center + 180.0).rem_euclid(360.0) - 180.0
    }

    pub(crate) fn contains(&self, hue: f32) -> bool {
        self.distance(hue) <= 0.0
    }

    /// Returns the sector whose border is nearest to a hue.
    pub(crate) fn nearest(&self, hue: f32) -> Option<Sector> {
        let outside = |sector: &Sector| self.offset(hue, *sector).abs() - sector.width / 2.0;
        self.sectors.iter().copied().min_by(|a, b| outside(a).total_cmp(&outside(b)))
    }

    /// Moves a hue into a sector: hues near the center hardly move, distant ones end near the border. The
    /// order of hues is kept, so gradients stay gradients.
    pub(crate) fn drawn_into(&self, sector: Sector, hue: f32) -> f32 {
        let offset = self.offset(hue, sector);
        let half = sector.width / 2.0;
        let nearness = (-(offset / half).powi(2) / 2.0).exp();
        self.turn + sector.center + half * (1.0 - nearness).copysign(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hue_ends_in_the_template() {
        for (word, sectors) in TEMPLATES {
            for turn in [0.0, 77.0, 350.0] {
                let template = Turned { sectors, turn };
                for hue in 0..360 {
                    let sector = template.nearest(hue as f32).unwrap_or(sectors[0]);
                    let drawn = template.drawn_into(sector, hue as f32);
                    assert!(template.distance(drawn) < 0.01, "{word} at {turn}: {hue} became {drawn}");
                }
            }
        }
    }

    #[test]
    fn a_template_fits_where_the_hues_are() {
        let mut hues: Histogram = [0.0; 360];
        hues[200] = 1.0;
        hues[20] = 0.8;
        for (word, sectors) in TEMPLATES.iter().filter(|(word, _)| ["double_bar", "x_cross"].contains(word)) {
            let fitting = Turned::fitting(sectors, &hues);
            assert!(fitting.contains(200.0) && fitting.contains(20.0), "{word}: {fitting:?}");
        }
    }
}
