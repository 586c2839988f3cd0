const FORM = /^v(\d+)(?:(alpha|beta)(\d+))?$/;
const STAGES = ["alpha", "beta", undefined];

/** Orders versions as Kubernetes does, the best first: v2, v1, v1beta1, v1alpha1; then all other names alphabetically. */
export function compareVersions(a: string, b: string): number {
  const [first, second] = [FORM.exec(a), FORM.exec(b)];
  if (first === null || second === null) {
    if (first !== null) return -1;
    if (second !== null) return 1;
    return a < b ? -1 : a > b ? 1 : 0;
  }
  return (
    STAGES.indexOf(second[2]) - STAGES.indexOf(first[2]) ||
    Number(second[1]) - Number(first[1]) ||
    Number(second[3] ?? 0) - Number(first[3] ?? 0)
  );
}
