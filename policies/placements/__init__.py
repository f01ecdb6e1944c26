"""Where gangs lie: packing into machines and racks, network tiers, one round placed as a whole."""
