"""From a network to the graph of operations that the rules bound.

The way of a graph:

1. **Capture** (:mod:`lipaudit.graph.capture`). ``torch.export`` traces the module once. What depends on weights alone is evaluated in
   float64 and becomes a :class:`~lipaudit.graph.node.Constant`; what depends on the input becomes a frozen
   :class:`~lipaudit.graph.node.Node`, one ATen operation each, in topological order. The graph is compared with the module on
   inputs of its own, and a module that computes something else has no bound.
2. **Decomposition** (:mod:`lipaudit.graph.passes.decomposition`). An operation without a rule is written as several that have one, by
   torch's own definition of it.
3. **Passes equal in value** (:mod:`lipaudit.graph.passes.table`). Identities go, and what arrives written out (attention,
   normalisations, activations) becomes one operation. The graph still computes the network; intervals and magnitudes of values are
   bounded on it.
4. **Passes equal on differences** (the second half of the same table). Constant shifts go, linear maps carry their weights, batch norms
   and other scales are folded into them, parallel branches are merged. f(x) - f(y) is still that of the network.
5. **Rules** (:mod:`lipaudit.rules`) bound every operation of the last graph; :mod:`lipaudit.graph.weights` lists the constants whose
   norms they need.

Within the package ``capture`` and ``passes`` stand side by side on top and import nothing of each other. Below them are ``functions``
(functions of one real variable), ``weights`` and ``pattern``; below these the readers of single nodes (``linear``, ``contraction``,
``recurrent``, ``constants``), then ``evaluate``, ``rewrite`` and ``node``.
"""
