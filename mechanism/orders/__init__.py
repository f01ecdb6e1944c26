"""In which order jobs are served, by whatever mechanism.

`by_share` knows who is owed most of the shares of a policy, in rounds as under leases; `by_past`
the orders of schedulers that offer GPUs: by arrival, service, slowdown, unfairness. All compare by
the rules of `apportion.ties`, which say when numbers count as equal.
"""
