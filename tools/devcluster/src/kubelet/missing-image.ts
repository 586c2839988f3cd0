/** Images below this name do not exist, so that what happens then can be tried where no image is ever pulled. */
const MISSING = "missing.example/";

export function isMissingImage(image: string): boolean {
  return image.startsWith(MISSING);
}
