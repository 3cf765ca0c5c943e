// `erfcx(t) = exp(t^2) erfc(t)` for `t >= -1/2`, and differences of values without cancellation.
// Requires `wgsl/shared/{split,float}.wgsl`. Twin: `twin::erfcx`, whose header describes the method
// and the origin of the coefficients.

// `1 / (t + 5/2)`, and the variable of the polynomial.
struct ErfcxPlace {
    u: f32,
    y: f32,
}

fn erfcx_place(t: f32) -> ErfcxPlace {
    let u = split_inverse_rounded(t + 2.5);
    return ErfcxPlace(u, 1.0 - 4.0 * u);
}

fn erfcx_at(t: f32) -> f32 {
    let place = erfcx_place(t);
    return erfcx_polynomials(place.y, place.y).value * place.u;
}

// `(erfcx(a) - erfcx(b)) / (b - a)` for `b >= a`.
fn erfcx_slope(a: f32, b: f32) -> f32 {
    let at_a = erfcx_place(a);
    let at_b = erfcx_place(b);
    let p = erfcx_polynomials(at_b.y, at_a.y);
    return at_a.u * at_b.u * (p.value - 4.0 * at_a.u * p.divided);
}

// The value of a polynomial at a point, and its divided difference between this point and another.
struct ErfcxPolynomials {
    value: f32,
    divided: f32,
}

fn erfcx_polynomials(y: f32, other: f32) -> ErfcxPolynomials {
    var p = ErfcxPolynomials(5.9605132e-5, 0.0);
    p = erfcx_step(p, y, other, 1.3645409e-5);
    p = erfcx_step(p, y, other, -4.0707886e-4);
    p = erfcx_step(p, y, other, -2.519608e-4);
    p = erfcx_step(p, y, other, 0.0017178066);
    p = erfcx_step(p, y, other, 0.0020235367);
    p = erfcx_step(p, y, other, -0.007344101);
    p = erfcx_step(p, y, other, -0.01137308);
    p = erfcx_step(p, y, other, 0.04420431);
    p = erfcx_step(p, y, other, 0.03362677);
    p = erfcx_step(p, y, other, -0.37687126);
    p = erfcx_step(p, y, other, 0.9240747);
    p = erfcx_step(p, y, other, -1.331625);
    return erfcx_step(p, y, other, 1.2863417);
}

// A step of Horner's scheme at `y`. Its intermediate values are the coefficients of the quotient by
// the linear factor of `y`, which is evaluated at `other`.
fn erfcx_step(p: ErfcxPolynomials, y: f32, other: f32, coefficient: f32) -> ErfcxPolynomials {
    return ErfcxPolynomials(p.value * y + coefficient, p.divided * other + p.value);
}
