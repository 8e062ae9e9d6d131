use std::fs::{self, File};

use proptest::prelude::*;

use super::*;

use crate::error::Error;

// All files and pixels below are of Pillow 13.0.0 and NumPy 2.4.6:
//
// import io, numpy as np
// from PIL import Image
// y, x = np.mgrid[0:14, 0:20]
// rgb = np.stack([8*x + 6*y, 200 - 7*x + 2*y, 60 + (x - 9)**2], -1).astype("u1")
// def file(picture, kind, **options):
//     b = io.BytesIO(); picture.save(b, kind, **options)
//     print(b.getvalue().hex(), np.asarray(Image.open(b)).tobytes().hex())
//
// file(Image.fromarray(rgb[:9, :11, 0]), "JPEG", quality=85, optimize=True)
const GREY_JPEG: &str = "\
        ffd8ffe000104a46494600010100000100010000ffdb0043000503040404030504040405050506070c08\
        070707070f0b0b090c110f1212110f111113161c1713141a1511111821181a1d1d1f1f1f13172224221e\
        241c1e1f1effc0000b080009000b01011100ffc4001500010100000000000000000000000000000706ff\
        c4001f1000010303050000000000000000000000000204050622243234414271ffda0008010100003f00\
        01a3a13458273484c7459c1394774139a6dd1e1fffd9\
    ";
const GREY_PIXELS: &str = "\
        010811192029323841484f060d161e252e373d464d540d141d252c353e444d545b131a232b323b444a53\
        5a61181f28303740494f585f661e252e363d464f555e656c252c353d444d565c656c732a313a4249525b\
        616a7178303740495058616870787f\
    ";

// file(Image.fromarray(rgb), "JPEG", quality=80, subsampling=2, optimize=True)
const SUBSAMPLED_JPEG: &str = "\
        ffd8ffe000104a46494600010100000100010000ffdb00430006040506050406060506070706080a100a\
        0a09090a140e0f0c1017141818171416161a1d251f1a1b231c1616202c20232627292a29191f2d302d28\
        3025282928ffdb0043010707070a080a130a0a13281a161a282828282828282828282828282828282828\
        2828282828282828282828282828282828282828282828282828282828282828ffc0001108000e001403\
        012200021101031101ffc40017000003010000000000000000000000000000050603ffc4001c10000202\
        03010100000000000000000000000401020311213161ffc4001601010101000000000000000000000000\
        00060507ffc4001d110002020105000000000000000000000000010204030611122223ffda000c030100\
        02110311003f00d9d53b3c14e553be168ead5dc8a72af5d876763dc8ba6aaad913b0a7c01fc2d501ae1b\
        1d11a942aae28fffd9\
    ";
const SUBSAMPLED_PIXELS: &str = "\
        0cc47c0ec07611b96c17b36021ab552aa54a339e403a983a438f354a8a365381395b7a3e6471456a6b49\
        7266507b5f5c85556f8c4e7d904b8491498810c57e10c27814bb6d1bb46225ae562ea64c369f423e993a\
        4591374d8b3856843b5e7c406774466e6e4c7468507d615d885671905180934e87964c8915c98016c57a\
        1bbe6f20b8652ab05933aa4e3ba344459c3e4b943a548e3a5c863e657f426d764774704d7a6c5282655f\
        8e59739553819950889a4f8a1bcb821cc77b21c07026ba6630b25a39ac4f41a5454a9e4051963b5a903c\
        62883f6b814372784878724e7f6e54886760925c749a55829f528aa1518c21cb8222c87c26c2712cba66\
        37b4593fac4f48a64650a03f56973b60923d688a3e6f8143787a4980744e876f558e6760995d76a05784\
        a4538ba7528d27cd8129ca7c2ec37232bc663db55b46af504ea84657a1405d983a67933c6f8b40778343\
        7f7c4987754f8c7154956a63a05f75a75983ac558aad548e2fd0822fcc7b33c5723abf6645b85b4db151\
        55aa455da340649c3b6d953c768e407d8643867f4b8e784f9473549c6c62a86076af5a84b1578ab5568e\
        34d18036ce7b3bc7713fc0644ab95b53b3515bac4564a53f6b9d3a74973b7c8f3e8487428c7f4a94794e\
        9b7455a36d61ad6276b45c84b95989ba578d3bd3803bcf793fc87046c26450b95a59b34f61ac4569a63e\
        71a03a7a993b82913e8a8a449281499a7b4da17654a96f61b36575ba5e83be5b89c1598c40d47e41d078\
        44c96e4bc26456bc595eb54d66ad436ea73e76a03a7f9a3b89923f8f8b429882489f7d4fa57753ae715f\
        b86674bf6082c55c87c75b8c45d88047d37a4bcc7052c6655bc05a63b94e6cb14475aa3e7ca339859d3b\
        8f953f958d429f8548a57f4eac7b53b57462bf6974c66382cc5f89ce5e8e4cdb814dd67a52cf7157ca65\
        62c35a69bd4e72b5447aae3f82a63c8ba03b94993f9c9142a58948ac834fb17d55b97761c66c76cd6683\
        d1638ad3628e51de8252d97b56d2725ccc6666c65b6dbf5077b7457fb13e87a93b90a23c989b40a09344\
        a98c4ab08550b58054bd7a60ca6f76d16984d5658bd8659054df8255db7c58d4725fce6767c75b71c150\
        79ba4682b34088aa3a91a43b9b9c3fa19543ab8c4bb1864fb88256c07a61cc7176d36b84d9678bda658f\
    ";

// file(Image.fromarray(rgb), "JPEG", quality=80, subsampling=0, progressive=True)
const PROGRESSIVE_JPEG: &str = "\
        ffd8ffe000104a46494600010100000100010000ffdb00430006040506050406060506070706080a100a\
        0a09090a140e0f0c1017141818171416161a1d251f1a1b231c1616202c20232627292a29191f2d302d28\
        3025282928ffdb0043010707070a080a130a0a13281a161a282828282828282828282828282828282828\
        2828282828282828282828282828282828282828282828282828282828282828ffc2001108000e001403\
        011100021101031101ffc400160001010100000000000000000000000000020405ffc400170101010101\
        00000000000000000000000005060204ffda000c030100021003100000017c73b26280b4c6e012126684\
        b2bfffc40017100101010100000000000000000000000000020112ffda0008010100010502b96cb95cb6\
        5cbfffc40017110101010100000000000000000000000002000421ffda0008010301013f01ca2ce20396\
        5367303cbfffc400191100020301000000000000000000000000000301022122ffda0008010201013f01\
        75b45db455b91d3a2e7455b93fffc40014100100000000000000000000000000000020ffda0008010100\
        063f025fffc40017100101010100000000000000000000000000011011ffda0008010100013f21d5c107\
        0fffda000c030100020003000000100c35ff00ffc4001811000301010000000000000000000000000001\
        213110ffda0008010301013f10c0cb851054107fffc40018110101000300000000000000000000000000\
        01101121ffda0008010201013f10c09c0a9729a3ffc40019100003010101000000000000000000000000\
        0121113161ffda0008010100013f10bb85f82f26e66c117fffd9\
    ";
const PROGRESSIVE_PIXELS: &str = "\
        01c78908c17e12b86e19b35d1ead5127a748319e43399741408f3c478a3b528139597c3c5d7541646e4b\
        7165557b5f5c81576b86517b8f498f97439b05c9890bc27f15ba6e1cb45f23b0522ba84a359f433c9841\
        43913d4b8c3c56843b5d7d3c6178446a704e7467567e615d84596c8b547c934c909b459c0bcc8b12c67f\
        1cbd7123b75f28b25332ab4a3ba246439c424a943f518f3c5c863c63803e677a4370724d7b6a5885645f\
        8b5c6e90567e994e91a1479e13ce8a19c78023be702ab96130b35339ad4a43a4454a9d4351953e59903d\
        63883b6b823e6e7b4576744d826c578b665e925d6d98587da04f91a94a9e19ce8921c88029c06f30b95f\
        37b5523eae484aa545529e4356973d60923d698a3b71823c757d447d764c896d5791665d995f6d9f597d\
        a75190ae4b9d20d08828ca7f30c26f38bb5e3eb65246b04b51a74459a0425d983c67933c708b3a77843c\
        7d7e4484774d8f6f5699695d9f616ca55b7cae5291b54d9c27d38b2ecc8136c4703ebe6145b9544cb34a\
        57a9455fa243649b3e6d953d778e3c7d873e8381448b7a4e9571579f6b5ea6626daa5d7db45491bc4f9e\
        2ad48b32cf823bc77142bf6148bb5450b54d5bac4663a544689e4071983f7a903d81893e8783468e7b50\
        997459a36e60ab656fb05f7fb95794c0519e31d68938cf7e41c76e49c15f4fbc5156b64a61ac4369a541\
        709f3f78993e82913c898c3f8e8446957d4da17558aa6f5fb0676eb6617ec05893c752a035d8873cd17d\
        46c86e4cc35d53bf505bb74865ae436da74074a03e7c9b3d87933d8e8c3f9186449b7f4fa57658af705e\
        b5696dbb627ec35a92cd559f3ddb8744d47d4ecb6d55c65e5bc15163ba496db14275aa407ca23d849e3d\
        8f953b958e3d9a8944a1814eae7957b6745ebd6b6dc3657dcc5d90d5579e45dd884cd77e55ce6d5dc85e\
        63c4516abd4775b4427dad4082a53d8b9f3c95993b9c923da28c43a9844db37b56bd755dc66e6ccb687c\
        d46091dc5b9c4bdf8752d97d5ad16d63ca5d69c65170bf487bb54483af4088a83d91a23c9b9b3ba2933e\
        a88e44af864eb97d58c3775dcb706bd16a7bda6290e25d9e4de18955da7f5ed26f66cc5f6cc75273c14a\
        7db84486b0428ba83e93a23d9e9b3ca4943daa8e45b1874dbd7f58c5785ecd736bd36d7bdc6491e45e9d\
    ";

// file(Image.new("CMYK", (3, 2), (10, 20, 30, 40)), "JPEG", optimize=True)
const CMYK_JPEG: &str = "\
        ffd8ffee000e41646f626500640000000000ffdb004300080606070605080707070909080a0c140d0c0b\
        0b0c1912130f141d1a1f1e1d1a1c1c20242e2720222c231c1c2837292c30313434341f27393d38323c2e\
        333432ffc000140800020003044311004d11005911004b1100ffc4001400010000000000000000000000\
        0000000007ffc40014100100000000000000000000000000000000ffda000e0443004d0059004b00003f\
        007535984aefffd9\
    ";

// a = np.arange(12, dtype="u1").reshape(3, 4) * 20
// file(Image.fromarray(np.dstack([rgb[:3, :4], a])), "PNG")
const RGBA_PNG: &str = "\
        89504e470d0a1a0a0000000d4948445200000004000000030806000000b4f4aec6000000264944415478\
        9c636438d1cbc0f1f3bd08c7cf8f221c3f3f8bb0b0313104b0313188c0308600004fec08c9421b62f700\
        00000049454e44ae426082\
    ";

// file(Image.fromarray(np.dstack([a, 255 - a]), mode="LA"), "PNG")
const GREY_ALPHA_PNG: &str = "\
        89504e470d0a1a0a0000000d49484452000000040000000308040000001efd664d000000164944415478\
        9c6364f82ff246e48dc81b96800d680c009ddd0c099be15ec30000000049454e44ae426082\
    ";

// file(Image.fromarray(a > 100), "PNG")
const BILEVEL_PNG: &str = "\
        89504e470d0a1a0a0000000d49484452000000040000000301000000009c8f936b0000000e4944415478\
        9c6360603060f8000001860121a70b8dab0000000049454e44ae426082\
    ";

// file(Image.fromarray(rgb[:3, :4]).quantize(3, dither=0), "PNG", transparency=1)
const PALETTE_PNG: &str = "\
        89504e470d0a1a0a0000000d4948445200000004000000030203000000c99a465500000009504c544513\
        c57d05c6871ab765682ce6880000000274524e53ff00e5b7304a0000000e49444154789c63f062626062\
        00000184004fdd6045300000000049454e44ae426082\
    ";

// file(Image.fromarray((np.arange(12) * 5000).reshape(3, 4).astype("u2")), "PNG")
const GREY_16_PNG: &str = "\
        89504e470d0a1a0a0000000d4948445200000004000000031000000000c10f2d590000001c4944415478\
        9c63606010ee5017b09ac1e2a720ac20a220ac0067000036f903bd113ca73d0000000049454e44ae4260\
        82\
    ";

fn hex(text: &str) -> Vec<u8> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(|pair| byte(pair)).collect()
}

fn parse(bytes: &[u8]) -> Result<Picture, Error> {
    decode(bytes, Path::new("d/f.png"))
}

fn message(bytes: &[u8]) -> String {
    parse(bytes).unwrap_err().to_string()
}

/// A PNG of these kinds of numbers, made of rows as they are packed.
fn png(size: [u32; 2], colours: ColorType, depth: png::BitDepth, rows: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size[0], size[1]);
    encoder.set_color(colours);
    encoder.set_depth(depth);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(rows).unwrap();
    writer.finish().unwrap();
    file
}

/// The formula that the files were made from.
fn rgb(x: u8, y: u8) -> [u8; 3] {
    let from_nine = x.abs_diff(9);
    [
        8 * x + 6 * y,
        200 - 7 * x + 2 * y,
        60 + from_nine * from_nine,
    ]
}

#[test]
fn jpegs_agree_with_pillow_to_a_few_levels() {
    // The last column of subsampled colours differs most: see `jpeg.rs`.
    let cases = [
        (GREY_JPEG, GREY_PIXELS, [11, 9], Channels::Grey, 2),
        (
            SUBSAMPLED_JPEG,
            SUBSAMPLED_PIXELS,
            [20, 14],
            Channels::Rgb,
            6,
        ),
        (
            PROGRESSIVE_JPEG,
            PROGRESSIVE_PIXELS,
            [20, 14],
            Channels::Rgb,
            2,
        ),
    ];
    for (file, pixels, [width, height], channels, most) in cases {
        let picture = parse(&hex(file)).unwrap();
        assert_eq!([picture.width, picture.height], [width, height]);
        assert_eq!(picture.channels, channels);
        let wanted = hex(pixels);
        assert_eq!(picture.bytes.len(), wanted.len());
        let apart = picture
            .bytes
            .iter()
            .zip(&wanted)
            .map(|(a, b)| a.abs_diff(*b));
        assert!(apart.max().unwrap() <= most, "{width} × {height}");
    }
}

#[test]
fn alpha_is_dropped() {
    let picture = parse(&hex(RGBA_PNG)).unwrap();
    let wanted: Vec<u8> = (0..12).flat_map(|i| rgb(i % 4, i / 4)).collect();
    assert_eq!((picture.width, picture.height), (4, 3));
    assert_eq!((picture.channels, picture.bytes), (Channels::Rgb, wanted));
    let picture = parse(&hex(GREY_ALPHA_PNG)).unwrap();
    let wanted = (0..12).map(|i| 20 * i).collect();
    assert_eq!((picture.channels, picture.bytes), (Channels::Grey, wanted));
}

/// np.asarray(Image.open(b).convert("RGB")) of the palette, and convert("L") of the other.
#[test]
fn palettes_and_bits_become_bytes() {
    let picture = parse(&hex(PALETTE_PNG)).unwrap();
    let row = "05c68713c57d1ab7651ab765";
    assert_eq!(picture.channels, Channels::Rgb);
    assert_eq!(picture.bytes, hex(&row.repeat(3)));
    let picture = parse(&hex(BILEVEL_PNG)).unwrap();
    assert_eq!(picture.channels, Channels::Grey);
    assert_eq!(picture.bytes, hex("000000000000ffffffffffff"));
}

#[test]
fn few_bits_are_stretched_to_the_whole_range() {
    use png::BitDepth::{Four, Two};
    let two = png([4, 1], ColorType::Grayscale, Two, &[0b00_01_10_11]);
    assert_eq!(parse(&two).unwrap().bytes, [0, 85, 170, 255]);
    let four = png([3, 1], ColorType::Grayscale, Four, &[0x0f, 0x70]);
    assert_eq!(parse(&four).unwrap().bytes, [0, 255, 119]);
}

#[test]
fn sixteen_bits_keep_the_high_byte() {
    use png::BitDepth::Sixteen;
    let row = [0x12, 0xff, 0x34, 0x00, 0xff, 0x7f];
    let colour = png([1, 1], ColorType::Rgb, Sixteen, &row);
    assert_eq!(parse(&colour).unwrap().bytes, [0x12, 0x34, 0xff]);
    let grey = parse(&hex(GREY_16_PNG)).unwrap();
    let wanted: Vec<u8> = (0..12u16).map(|i| ((i * 5000) >> 8) as u8).collect();
    assert_eq!((grey.channels, grey.bytes), (Channels::Grey, wanted));
}

/// Image.fromarray(np.array([[[r, g, b], …]], "u1")).convert("L") gives these levels.
#[test]
fn grey_is_pillows_luma() {
    const LUMAS: [u8; 6] = [76, 150, 29, 255, 2, 57];
    let colours = [
        [255, 0, 0],
        [0, 255, 0],
        [0, 0, 255],
        [255; 3],
        [1, 2, 3],
        [99, 7, 201],
    ];
    let picture = Picture {
        width: 3,
        height: 2,
        channels: Channels::Rgb,
        bytes: colours.as_flattened().to_vec(),
    };
    let grey = picture.to_channels(Channels::Grey);
    assert_eq!(grey.bytes, LUMAS);
    assert_eq!(
        (grey.width, grey.height, grey.channels),
        (3, 2, Channels::Grey)
    );
    assert_eq!(picture.to_channels(Channels::Rgb), picture);
    let back = grey.to_channels(Channels::Rgb);
    assert_eq!(
        back.bytes[..6],
        [LUMAS[0], LUMAS[0], LUMAS[0], LUMAS[1], LUMAS[1], LUMAS[1]]
    );
}

/// i = np.arange(65536)
/// a = np.stack([i & 255, i >> 8, i * 7 & 255], -1).astype("u1")
/// levels = np.asarray(Image.fromarray(a[None]).convert("L"))[0].astype(int)
/// (levels * (i % 251)).sum()
#[test]
fn many_colours_have_pillows_luma() {
    let level = |i: u32| luma([i as u8, (i >> 8) as u8, (7 * i) as u8]);
    let sum: u32 = (0..65_536).map(|i| u32::from(level(i)) * (i % 251)).sum();
    assert_eq!(sum, 1_046_086_449);
}

#[test]
fn channels_are_one_or_three() {
    let all: Vec<_> = (0..5).map(Channels::of).collect();
    assert_eq!(
        all,
        [None, Some(Channels::Grey), None, Some(Channels::Rgb), None]
    );
}

#[test]
fn the_first_bytes_decide_and_not_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("really-a-jpeg.png");
    fs::write(&path, hex(GREY_JPEG)).unwrap();
    assert_eq!(read(&path).unwrap(), parse(&hex(GREY_JPEG)).unwrap());
    let missing = read(&folder.path().join("none.png")).unwrap_err();
    let missing = missing.to_string();
    assert!(missing.starts_with("could not read `"), "{missing}");
    assert!(missing.contains("none.png`: No such file"), "{missing}");
}

#[test]
fn other_files_are_refused_by_name() {
    assert_eq!(
        message(b"GIF89a.."),
        "`d/f.png` is neither PNG nor JPEG: it starts with 47 49 46 38 39 61 2e 2e"
    );
    assert_eq!(
        message(b""),
        "`d/f.png` is neither PNG nor JPEG: it starts with nothing, it is empty"
    );
    assert_eq!(
        message(&hex(CMYK_JPEG)),
        "`d/f.png` is a JPEG of CMYK colours, which cannot be read\nhint: save it as RGB"
    );
}

#[test]
fn files_cut_short_are_refused() {
    for file in [
        RGBA_PNG,
        PALETTE_PNG,
        GREY_JPEG,
        SUBSAMPLED_JPEG,
        PROGRESSIVE_JPEG,
    ] {
        let file = hex(file);
        // What follows the pixels may be missing: an end mark, or the checksum before it.
        for end in 0..file.len() - 20 {
            assert!(parse(&file[..end]).is_err(), "{end} of {}", file.len());
        }
    }
    let cut = message(&hex(GREY_JPEG)[..100]);
    assert!(
        cut.starts_with("could not decode the JPEG `d/f.png`: "),
        "{cut}"
    );
    let cut = message(&hex(RGBA_PNG)[..60]);
    assert!(
        cut.starts_with("could not decode the PNG `d/f.png`: "),
        "{cut}"
    );
}

/// The file with another width and height in its header.
fn claim(mut file: Vec<u8>, width: u16, height: u16) -> Vec<u8> {
    let (w, h) = (width.to_be_bytes(), height.to_be_bytes());
    if file.starts_with(PNG) {
        file[16..24].copy_from_slice(&[0, 0, w[0], w[1], 0, 0, h[0], h[1]]);
        let mut crc = flate2::Crc::new();
        crc.update(&file[12..29]);
        file[29..33].copy_from_slice(&crc.sum().to_be_bytes());
    } else {
        let frame = file
            .windows(2)
            .position(|pair| pair == [0xff, 0xc0])
            .unwrap();
        file[frame + 5..frame + 9].copy_from_slice(&[h[0], h[1], w[0], w[1]]);
    }
    file
}

#[test]
fn a_header_alone_reserves_no_memory() {
    for file in [RGBA_PNG, SUBSAMPLED_JPEG] {
        assert_eq!(
            message(&claim(hex(file), 16_385, 4)),
            "`d/f.png` is 16385 × 4 pixels; a side has 1 to 16384"
        );
        let length = hex(file).len();
        assert_eq!(
            message(&claim(hex(file), 16_384, 16_384)),
            format!(
                "`d/f.png` is 16384 × 16384 pixels by its header, but has only {length} bytes\n\
                     hint: the file is cut short; fetch it again"
            )
        );
        assert!(parse(&claim(hex(file), 0, 4)).is_err());
        assert!(parse(&claim(hex(file), 20, 40)).is_err());
    }
}

/// An empty file of the length of a disk is not read, only measured.
#[test]
fn a_file_beyond_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.png");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 38).unwrap();
    let failure = read(&path).unwrap_err().to_string();
    let wanted = "huge.png` is longer than 268435456 bytes, the most for an image";
    assert!(failure.ends_with(wanted), "{failure}");
}

const VALID: [&str; 9] = [
    GREY_JPEG,
    SUBSAMPLED_JPEG,
    PROGRESSIVE_JPEG,
    CMYK_JPEG,
    RGBA_PNG,
    GREY_ALPHA_PNG,
    BILEVEL_PNG,
    PALETTE_PNG,
    GREY_16_PNG,
];

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let _ = parse(&[PNG, &bytes].concat());
        let _ = parse(&[JPEG, &bytes].concat());
    }

    #[test]
    fn damaged_files_never_panic(
        which in 0..VALID.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = hex(VALID[which]);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for bytes in [&bytes[..], &bytes[..end.index(bytes.len())]] {
            if let Ok(picture) = parse(bytes) {
                let pixels = picture.width * picture.height;
                prop_assert_eq!(picture.bytes.len(), pixels * picture.channels.count());
            }
        }
    }

    /// Checksums stop most damage early in a PNG; here they fit.
    #[test]
    fn damaged_headers_with_sound_checksums_never_panic(
        which in 4..VALID.len(),
        header in any::<[u8; 5]>(),
        sides in any::<[u16; 2]>(),
    ) {
        let mut bytes = hex(VALID[which]);
        let [depth, colours, ..] = header;
        bytes[24..26].copy_from_slice(&[1 << (depth % 5), colours % 7]);
        bytes[28] = header[2] & 1;
        let _ = parse(&claim(bytes.clone(), sides[0] % 40, sides[1] % 40));
        let _ = parse(&claim(bytes, sides[0], sides[1]));
    }
}
