//! Colours of the CIE and of Tektronix, as X11 converts them for a screen (Xcms): xterm's answers follow from it.

use crate::color::intensity;

/// From CIE XYZ to red, green and blue light.
const TO_LIGHT: [[f64; 3]; 3] = [
    [3.483_404_812_535_39, -1.521_763_749_272_852, -0.559_231_333_540_497_8],
    [-1.071_527_513_061_936, 1.965_937_952_043_724, 0.036_736_913_395_534_62],
    [0.063_511_797_904_977_88, -0.200_205_010_004_964_8, 0.810_709_420_316_482_2],
];
/// The white point of the screen.
const WHITE: [f64; 3] = [0.949_664_400_526_097_6, 1.0, 1.406_040_291_648_980_3];
/// The angle that hues of TekHVC begin with points to the best red.
const BEST_RED: [f64; 2] = [0.7127, 0.4931];
const CHROMA_SCALE: f64 = 7.50725;

type Xyz = [f64; 3];

/// Returns the colour that three numbers are in the space of this name.
pub(crate) fn parse(space: &str, numbers: [f64; 3]) -> Option<[u8; 3]> {
    let [a, b, c] = numbers;
    let color = match space {
        "rgbi" => return Some(bytes(numbers)),
        "ciexyz" => numbers,
        "ciexyy" => from_xyy(a, b, c),
        "cieuvy" => from_uvy(a, b, c),
        "cielab" => from_lab(a, b, c),
        "cieluv" => from_luv(a, b, c),
        "tekhvc" => from_hvc(a, b, c),
        _ => return None,
    };
    let light = light(color);
    // Xcms answers with the nearest colour that the screen has, and never with an error.
    Some(bytes(if fits(light) { light } else { brought_in(color) }))
}

fn bytes(light: [f64; 3]) -> [u8; 3] {
    [0, 1, 2].map(|channel| intensity::byte(channel, light.get(channel).copied().unwrap_or(0.0)))
}

fn light(color: Xyz) -> [f64; 3] {
    TO_LIGHT.map(|row| row.iter().zip(color).map(|(factor, part)| factor * part).sum())
}

fn fits(light: [f64; 3]) -> bool {
    light.iter().all(|part| (-1e-5..=1.0 + 1e-5).contains(part))
}

/// Returns the light that is nearest to a colour which no screen can show: of the same hue and value, and less chroma.
fn brought_in(color: Xyz) -> [f64; 3] {
    let (hue, value, chroma) = to_hvc(color);
    // Numbers from a child may be anything, also none at all.
    if !value.is_finite() || value <= 0.0 {
        return [0.0; 3];
    }
    if value >= 100.0 {
        return [1.0; 3];
    }
    let (mut low, mut high) = (0.0, chroma);
    // Bisection, until the interval is smaller than a double can tell.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let light = light(from_hvc(hue, value, middle));
        *(if light.iter().all(|part| (0.0..=1.0).contains(part)) { &mut low } else { &mut high }) = middle;
    }
    // It is within what can be shown, if by little.
    light(from_hvc(hue, value, low)).map(|part| part.max(3e-5))
}

fn from_xyy(x: f64, y: f64, luminance: f64) -> Xyz {
    if y == 0.0 { [0.0; 3] } else { [x * luminance / y, luminance, (1.0 - x - y) * luminance / y] }
}

fn from_uvy(u: f64, v: f64, luminance: f64) -> Xyz {
    let divisor = 6.0 * u - 16.0 * v + 12.0;
    // Black, as Xcms takes what has no place.
    if divisor == 0.0 {
        return [0.0; 3];
    }
    from_xyy(9.0 * u / divisor, 4.0 * v / divisor, luminance)
}

fn to_uv([x, y, z]: Xyz) -> [f64; 2] {
    let sum = x + 15.0 * y + 3.0 * z;
    if sum == 0.0 { [0.0; 2] } else { [4.0 * x / sum, 9.0 * y / sum] }
}

fn luminance(lightness: f64) -> f64 {
    if lightness < 7.999_536_24 { lightness / 903.29 } else { ((lightness + 16.0) / 116.0).powi(3) }
}

/// Xcms takes `a` and `b` for a hundredth of what others do.
fn from_lab(lightness: f64, a: f64, b: f64) -> Xyz {
    let [x, _, z] = WHITE;
    let base = (lightness + 16.0) / 116.0;
    if base.powi(3) < 0.008856 {
        let base = lightness / 9.03292;
        return [x * (a / 3893.5 + base), base, z * (base - b / 1557.4)];
    }
    [x * (base + a / 5.0).powi(3), base.powi(3), z * (base - b / 2.0).powi(3)]
}

fn from_luv(lightness: f64, u: f64, v: f64) -> Xyz {
    let white = to_uv(WHITE);
    let [u, v] = if lightness == 0.0 {
        white
    } else {
        let scale = 13.0 * lightness / 100.0;
        [u / scale + white[0], v / scale + white[1]]
    };
    from_uvy(u, v, luminance(lightness))
}

fn first_hue() -> f64 {
    let white = to_uv(WHITE);
    (BEST_RED[1] - white[1]).atan2(BEST_RED[0] - white[0])
}

fn from_hvc(hue: f64, value: f64, chroma: f64) -> Xyz {
    let [u, v] = to_uv(WHITE);
    if value <= 0.0 || value >= 100.0 {
        return from_uvy(u, v, if value <= 0.0 { 0.0 } else { 1.0 });
    }
    let (angle, distance) = (hue.to_radians() + first_hue(), chroma / (value * CHROMA_SCALE));
    from_uvy(u + angle.cos() * distance, v + angle.sin() * distance, luminance(value))
}

fn to_hvc(color: Xyz) -> (f64, f64, f64) {
    let ([u, v], white) = (to_uv(color), to_uv(WHITE));
    let (u, v, y) = (u - white[0], v - white[1], color[1]);
    let value = if y < 0.008856 { y * 903.29 } else { 116.0 * y.cbrt() - 16.0 };
    ((v.atan2(u) - first_hue()).to_degrees(), value, value * CHROMA_SCALE * u.hypot(v))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the answers of a running xterm.
    #[test]
    fn colours_come_out_as_with_xcms() {
        let numbers = [0.371_298, 0.201_443, 0.059_418];
        for (space, want) in [
            ("ciexyz", [0xfa, 0x13, 0x40]),
            ("cieuvy", [0x85, 0x13, 0x7a]),
            ("ciexyy", [0x8c, 0x1f, 0x62]),
            ("cielab", [0x49, 0x47, 0x47]),
            ("cieluv", [0x12, 0x13, 0x0e]),
            ("tekhvc", [0x09, 0x13, 0x0e]),
        ] {
            assert_eq!(parse(space, numbers), Some(want), "{space}");
        }
        assert_eq!(parse("cielab", [50.0, 0.0, 0.0]), Some([0x83, 0x7d, 0x7e]));
        assert_eq!(parse("tekhvc", [343.864_76, 19.652_17, 45.344_18]), Some([0x6f, 0x13, 0x43]));
        assert_eq!(parse("nope", numbers), None);
    }

    #[test]
    fn no_numbers_do_harm() {
        for space in ["rgbi", "ciexyz", "cieuvy", "ciexyy", "cielab", "cieluv", "tekhvc"] {
            for a in [0.0, -1.0, 1e300, -1e300, 1e-300] {
                for b in [0.0, -1.0, 1e300] {
                    for c in [0.0, -1.0, 1e300] {
                        assert!(parse(space, [a, b, c]).is_some());
                    }
                }
            }
        }
    }
}
