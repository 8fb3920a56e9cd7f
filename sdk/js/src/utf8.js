// UTF-8, because QuickJS has no TextEncoder and TextDecoder.

export function encode(text) {
  const bytes = [];
  for (const character of text.toWellFormed()) {
    const code = character.codePointAt(0);
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), tail(code));
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), tail(code >> 6), tail(code));
    else bytes.push(0xf0 | (code >> 18), tail(code >> 12), tail(code >> 6), tail(code));
  }
  return Uint8Array.from(bytes);
}

function tail(code) {
  return 0x80 | (code & 0x3f);
}

/** Decodes UTF-8. Invalid bytes become U+FFFD. */
export function decode(bytes) {
  let text = '';
  for (let place = 0; place < bytes.length; ) {
    const [code, length] = character(bytes, place);
    text += String.fromCodePoint(code);
    place += length;
  }
  return text;
}

const LENGTHS = [[0x80, 0x00, 1, 0], [0xe0, 0xc0, 2, 0x80], [0xf0, 0xe0, 3, 0x800], [0xf8, 0xf0, 4, 0x10000]];

function character(bytes, place) {
  const first = bytes[place];
  for (const [mask, head, length, least] of LENGTHS) {
    if ((first & mask) !== head) continue;
    let code = first & ~mask & 0xff;
    for (let next = 1; next < length; next += 1) {
      const byte = bytes[place + next];
      if (byte === undefined || (byte & 0xc0) !== 0x80) return [0xfffd, next];
      code = (code << 6) | (byte & 0x3f);
    }
    const isCharacter = code >= least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return [isCharacter ? code : 0xfffd, length];
  }
  return [0xfffd, 1];
}
