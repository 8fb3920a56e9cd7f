// Label selectors in Kubernetes' syntax.

const REQUIREMENT = /^\s*(?:(!)?\s*([\w./-]+)|([\w./-]+)\s*(=|==|!=)\s*([\w.-]*)|([\w./-]+)\s+(in|notin)\s*\(([^)]*)\))\s*$/;

export function selects(selector, labels) {
  return selector.split(/,(?![^(]*\))/).every((requirement) => holds(requirement, labels));
}

function holds(requirement, labels) {
  const found = REQUIREMENT.exec(requirement);
  if (found === null) throw new TypeError(`"${requirement}" is no requirement of a label selector`);
  const [, not, existing, key, sign, value, member, within, values] = found;
  if (existing !== undefined) return Object.hasOwn(labels, existing) === (not === undefined);
  if (key !== undefined) return (labels[key] === value) === (sign !== '!=');
  return values.split(',').map((each) => each.trim()).includes(labels[member]) === (within === 'in');
}
