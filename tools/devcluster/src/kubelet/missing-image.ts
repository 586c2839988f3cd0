/** Images below this name count as missing, so that tests can exercise that case without pulling images. */
const MISSING = "missing.example/";

export function isMissingImage(image: string): boolean {
  return image.startsWith(MISSING);
}
