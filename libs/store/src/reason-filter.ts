/** Returns a function that reports whether an error differs from the previous one, so that an outage is logged once. */
export function makeReasonFilter(): (error: unknown) => boolean {
  let last = "";
  return (error) => {
    const isNew = String(error) !== last;
    last = String(error);
    return isNew;
  };
}
