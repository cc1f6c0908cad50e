"""Pipeline: origins → records → facts → grouped by conversation → reduce → link → enrich → sink."""
