// Recovers linear positions from a grid that the dispatcher folded to at most 65 535 workgroups per dimension.
// The grid may hold more workgroups than the work needs, so every caller guards by its logical size.

fn grid_workgroup(wid: vec3<u32>, n_workgroups: vec3<u32>) -> u32 {
    return wid.y * n_workgroups.x + wid.x;
}
