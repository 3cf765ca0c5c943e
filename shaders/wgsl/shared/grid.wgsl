// Linear index of a workgroup in a grid that the dispatcher folded to at most 65 535 workgroups per
// dimension.
// The grid may have more workgroups than needed, so every caller compares its index with the
// logical size.

fn grid_workgroup(wid: vec3<u32>, n_workgroups: vec3<u32>) -> u32 {
    return wid.y * n_workgroups.x + wid.x;
}
