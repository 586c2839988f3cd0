/** Returns whether an error states another reason than the one before it: of an outage, only the first of many equal ones is worth a report. */
export function newReasons(): (error: unknown) => boolean {
  let last = "";
  return (error) => {
    const isNew = String(error) !== last;
    last = String(error);
    return isNew;
  };
}
